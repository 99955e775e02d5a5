/* The rotation as a custom call of XLA, for programs that JAX compiles for the CPU.

   XLA hands arguments over in a call frame. What is needed of its C interface is declared here, as the version 0.1 that
   the handler answers with has it: structures that hold their own size, so that later versions may append to them. */

#define _DEFAULT_SOURCE /* sched_yield */
#include <stddef.h>
#include <stdlib.h>

#include "rotate.h"

enum { EXTENSION_METADATA = 1, STAGE_EXECUTE = 3, BUFFER = 1, ATTRIBUTE_ARRAY = 1, INVALID_ARGUMENT = 3, S64 = 5 };
enum { PLAN_DTYPE, PLAN_BYTES, PLAN_UNITS, PLAN_SIZE = 52 };
/* By the plan's number of the dtype: XLA's numbers of the dtypes of tokens and tables, and the bytes of a token's. */
static const struct {
    int tokens, tables, bytes;
} DTYPES[] = {{12, 12, 8}, {11, 11, 4}, {16, 11, 2}, {10, 11, 2}};

typedef struct extension {
    size_t size;
    int type;
    struct extension *next;
} extension;

typedef struct {
    size_t size;
    extension *extensions;
    int major, minor;
} version;

typedef struct {
    extension base;
    struct {
        size_t size;
        version api;
        uint32_t traits;
    } *metadata;
} metadata_request;

typedef struct {
    size_t size;
    extension *extensions;
    int dtype;
    void *data;
    int64_t rank, *sizes;
} buffer;

typedef struct {
    int dtype;
    size_t count;
    const int64_t *numbers;
} array;

typedef struct {
    size_t size;
    extension *extensions;
    int64_t count;
    int *types;
    buffer **buffers;
} buffers;

typedef struct {
    size_t size;
    extension *extensions;
    int64_t count;
    int *types;
    void **names;
    array **arrays;
} attributes;

typedef struct {
    size_t size;
    extension *extensions;
    const char *message;
    int code;
} error_request;

typedef struct {
    size_t size;
    extension *extensions;
    void *error;
} destroy_request;

typedef struct {
    size_t size;
    extension *extensions;
    void *context;
    void (*task)(void *);
    void *data;
} schedule_request;

typedef struct {
    size_t size;
    extension *extensions;
    void *context;
    int64_t *threads;
} threads_request;

typedef struct {
    size_t size;
    extension *extensions;
    version api;
    const void *internal;
    void *(*create_error)(error_request *);
    void *get_message;
    void (*destroy_error)(destroy_request *);
    void *others[8];
    void *(*schedule)(schedule_request *);
    void *(*count_threads)(threads_request *);
} interface;

typedef struct {
    size_t size;
    extension *extensions;
    const interface *api;
    void *context;
    int stage;
    buffers arguments, results;
    attributes attributes;
} call_frame;

/* One rotation, whose parts threads take in turns. */
typedef struct {
    const int64_t *plan;
    const void *x, *cos, *sin;
    void *out;
} rotation;

#if defined(__STDC_NO_ATOMICS__) || defined(_WIN32)

static void rotate(const call_frame *frame, const rotation *r)
{
    (void)frame;
    posenc_rotate_part(r->plan, r->x, r->out, r->cos, r->sin, 0, 0, r->plan[PLAN_UNITS]);
}

#else

#include <sched.h>
#include <stdatomic.h>

static const int64_t SHARE = 1 << 20; /* bytes that are worth a thread */

typedef struct {
    rotation rotation;
    int64_t parts;
    _Atomic int64_t begun, done, users;
} shared;

static void rotate_parts(shared *s)
{
    const rotation *r = &s->rotation;
    for (int64_t part = s->begun++; part < s->parts; part = s->begun++) {
        int64_t units = r->plan[PLAN_UNITS];
        posenc_rotate_part(r->plan, r->x, r->out, r->cos, r->sin, 0, units * part / s->parts,
                           units * (part + 1) / s->parts);
        s->done++;
    }
}

/* Free the memory after its last user: a task may begin when all parts are done, and the call has returned. */
static void leave(shared *s)
{
    if (--s->users == 0)
        free(s);
}

static void task(void *data)
{
    rotate_parts(data);
    leave(data);
}

/* Return whether the interface succeeded: then it returns no error. */
static int succeeded(const interface *api, void *error)
{
    destroy_request request = {sizeof request, NULL, error};
    if (error)
        api->destroy_error(&request);
    return !error;
}

static int64_t count_threads(const call_frame *frame)
{
    int64_t threads = 1;
    threads_request request = {sizeof request, NULL, frame->context, &threads};
    if (frame->api->size < sizeof *frame->api)
        return 1;
    return succeeded(frame->api, frame->api->count_threads(&request)) ? threads : 1;
}

/* Rotate with the threads of XLA. It waits only for parts that another thread has begun, so it waits for no task that
   has no thread: all of them may wait in calls like this. */
static void rotate(const call_frame *frame, const rotation *r)
{
    int64_t units = r->plan[PLAN_UNITS], parts = r->plan[PLAN_BYTES] / SHARE, threads = 1;
    parts = parts < units ? parts : units;
    if (parts > 1)
        threads = count_threads(frame);
    shared *s = threads > 1 ? malloc(sizeof *s) : NULL;
    if (!s) {
        posenc_rotate_part(r->plan, r->x, r->out, r->cos, r->sin, 0, 0, units);
        return;
    }
    *s = (shared){*r, parts, 0, 0, 1};
    schedule_request request = {sizeof request, NULL, frame->context, task, s};
    for (int64_t other = 1; other < threads && other < parts; other++) {
        s->users++;
        if (!succeeded(frame->api, frame->api->schedule(&request)))
            s->users--;
    }
    rotate_parts(s);
    while (s->done < parts)
        sched_yield();
    leave(s);
}

#endif

static int64_t count(const buffer *b)
{
    int64_t product = 1;
    for (int64_t axis = 0; axis < b->rank; axis++)
        product *= b->sizes[axis];
    return product;
}

/* Return what is wrong with a call, NULL if nothing is: a program may come from another version of this package. */
static const char *fault(const call_frame *frame)
{
    const buffers *arguments = &frame->arguments, *results = &frame->results;
    const attributes *given = &frame->attributes;
    if (frame->stage != STAGE_EXECUTE || arguments->count != 3 || results->count != 1 || given->count != 1)
        return "posenc_rotate takes x, cos, sin and a plan, and has one result.";
    for (int i = 0; i < 3; i++)
        if (arguments->types[i] != BUFFER)
            return "posenc_rotate takes buffers.";
    const array *plan = given->arrays[0];
    if (results->types[0] != BUFFER || given->types[0] != ATTRIBUTE_ARRAY || plan->dtype != S64)
        return "posenc_rotate takes a plan of 64-bit integers and has a buffer as its result.";
    const int64_t *numbers = plan->numbers;
    if (plan->count != PLAN_SIZE || numbers[PLAN_DTYPE] < 0 || numbers[PLAN_DTYPE] > 3)
        return "The plan of posenc_rotate is of another version of posenc.";
    int tokens = DTYPES[numbers[PLAN_DTYPE]].tokens, tables = DTYPES[numbers[PLAN_DTYPE]].tables;
    const buffer *x = arguments->buffers[0], *out = results->buffers[0];
    if (x->dtype != tokens || out->dtype != tokens || arguments->buffers[1]->dtype != tables ||
        arguments->buffers[2]->dtype != tables)
        return "The arrays of posenc_rotate have other dtypes than its plan is for.";
    if (count(x) != count(out) || count(x) * DTYPES[numbers[PLAN_DTYPE]].bytes != numbers[PLAN_BYTES])
        return "The arrays of posenc_rotate have other sizes than its plan is for.";
    return NULL;
}

/* Rotate the arguments x, cos and sin by the attribute `plan`, as `plan.py` makes it for contiguous arrays. */
EXPORT void *posenc_rotate_xla(call_frame *frame)
{
    for (extension *each = frame->extensions; each; each = each->next)
        if (each->type == EXTENSION_METADATA) { /* XLA asks for the version before the first call */
            metadata_request *request = (metadata_request *)each;
            request->metadata->api.major = 0;
            request->metadata->api.minor = 1;
            return NULL;
        }
    const char *message = frame->size < sizeof *frame ? "posenc_rotate needs a later version of XLA." : fault(frame);
    if (message) {
        error_request request = {sizeof request, NULL, message, INVALID_ARGUMENT};
        return frame->api->create_error(&request);
    }
    buffer **given = frame->arguments.buffers;
    rotation r = {frame->attributes.arrays[0]->numbers, given[0]->data, given[1]->data, given[2]->data,
                  frame->results.buffers[0]->data};
    posenc_advise(r.plan, r.out);
    rotate(frame, &r);
    return NULL;
}
