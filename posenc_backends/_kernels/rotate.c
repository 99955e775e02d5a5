/* One fused rotation for all array libraries: each number is read once and written once, whatever the strides.

   It works on addresses and on a plan, an array of integers that `plan.py` makes from shapes and strides. Pairs are read
   before they are written, so the result may be `x` itself. Products and sums are rounded separately, as the operators
   of a framework round them: never compile this for a target with fused products.

   `rotate_rows.h` is included once for each dtype at each level: the baseline of the architecture, and AVX2 with F16C,
   which is chosen at the first call where the processor has it. */

#define _DEFAULT_SOURCE /* madvise */
#include <float.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "rotate.h"

enum { FLOAT64, FLOAT32, BFLOAT16, FLOAT16 };
enum { ANY_STRIDE, HALF, INTERLEAVED, TO_HALF, FROM_HALF };
enum { BASELINE, AVX2 };

/* Numbers in memory, which may lie at any address. */
typedef double float64 __attribute__((aligned(1)));
typedef float float32 __attribute__((aligned(1)));
typedef uint16_t bits16 __attribute__((aligned(1)));

/* One number for each array: offsets or strides, in elements. */
typedef struct {
    int64_t x, out, cos, sin;
} places;

/* The plan: see `plan.py`, which writes these fields in this order. */
typedef struct {
    int64_t dtype, fresh, units;
    int64_t others, blocks, block, tokens, heads, layout, pairs, pair_blocks, unrotated[2][2], by_token;
    places by_table, by_other, by_row, by_head;
    places first, second, pair, pair_block, channel;
} plan;

/* How rows of up to WIDEST channels, which lie side by side, are normalized as well; see `normalize` in `adapter.py`.
   So many partial sums of squares make the same bits at all levels. */
enum { WIDEST = 512, SUMS = 16 };
typedef struct {
    double epsilon, offset;
    const float *weight; /* of each channel, or 0 */
    int64_t rope_first, width;
} norm;

static inline places moved(places from, places stride, int64_t times)
{
    places to = {from.x + stride.x * times, from.out + stride.out * times, from.cos + stride.cos * times,
                 from.sin + stride.sin * times};
    return to;
}

#define INLINE TARGET static inline __attribute__((always_inline))
#define CONVERT __builtin_convertvector
#if defined(__clang__)
#define SHUFFLE_BY(one, two, ...) __builtin_shufflevector(one, two, __VA_ARGS__)
#else
#define SHUFFLE_BY(one, two, ...) __builtin_shuffle(one, two, (INDICES){__VA_ARGS__})
#endif

/* What other targets would get wrong silently, so that they are built without the kernel. */
#if FLT_EVAL_METHOD || defined(__FAST_MATH__) || defined(__FMA__)
#error "Products and sums must be rounded to their own type, one by one."
#endif
_Static_assert(sizeof(void *) == 8, "Addresses are passed as integers of 64 bits.");

/* Which numbers of two vectors of so many come together. */
#define EVENS_2 0, 2
#define EVENS_4 0, 2, 4, 6
#define EVENS_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS_2 1, 3
#define ODDS_4 1, 3, 5, 7
#define ODDS_8 1, 3, 5, 7, 9, 11, 13, 15
#define LOWS_2 0, 2
#define LOWS_4 0, 4, 1, 5
#define LOWS_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGHS_2 1, 3
#define HIGHS_4 2, 6, 3, 7
#define HIGHS_8 4, 12, 5, 13, 6, 14, 7, 15

#define JOIN_TWO_NAMES(one, two) one##_##two
#define JOIN_TWO(one, two) JOIN_TWO_NAMES(one, two)
#define JOIN_NAMES(one, two, three) one##_##two##_##three
#define JOIN(one, two, three) JOIN_NAMES(one, two, three)
#define IN_LEVEL(name) JOIN_TWO(name, LEVEL)
#define NAME(name) JOIN(name, DTYPE, LEVEL)
#define SHUFFLE(one, two, order) SHUFFLE_BY(one, two, JOIN_TWO(order, LANES))

#define doubles IN_LEVEL(doubles)
#define longs IN_LEVEL(longs)
#define floats IN_LEVEL(floats)
#define ints IN_LEVEL(ints)
#define words IN_LEVEL(words)
#define halves IN_LEVEL(halves)
#define half_floats IN_LEVEL(half_floats)

#define LEVEL baseline
#define TARGET
#define FLOATS 4
#define DOUBLES 2
#include "rotate_level.h"
#undef LEVEL
#undef TARGET
#undef FLOATS
#undef DOUBLES

#if defined(__x86_64__)

#define LEVEL avx2
#define TARGET __attribute__((target("avx2,f16c")))
#define FLOATS 8
#define DOUBLES 4
#define HAS_F16C
#include "rotate_level.h"

/* Asked of the processor itself: `__builtin_cpu_supports` answers 0 in libraries that some compilers link. */
static int best_level(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c >> 27 & 7) != 7) /* OSXSAVE, AVX, F16C */
        return BASELINE;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return BASELINE;
    return b >> 5 & 1 ? AVX2 : BASELINE;
}

#else

static int best_level(void) { return BASELINE; }

#endif

static int level = -1;

/* What `library.INTERFACE` must be; a test says what it is, once a function or the plan has changed. */
EXPORT int posenc_interface(void)
{
    return 1659182874;
}

/* Return the level that runs: 0 for the baseline, 1 for AVX2 with F16C. */
EXPORT int posenc_level(void)
{
    if (level < 0)
        level = best_level();
    return level;
}

/* Choose a level that is not above the best; return the one that runs. */
EXPORT int posenc_choose_level(int wanted)
{
    int best = best_level();
    return level = wanted < best ? wanted : best;
}

/* Ask Linux to back a large new result with pages of 2 MiB, so that first writes cause fewer page faults. */
void posenc_advise(const void *of, void *out)
{
#if defined(MADV_HUGEPAGE)
    const plan *p = of;
    uintptr_t begin = ((uintptr_t)out + 4095) & ~(uintptr_t)4095;
    if (p->fresh >= 1 << 21)
        madvise((void *)begin, (uintptr_t)out + p->fresh - begin, MADV_HUGEPAGE);
#else
    (void)of, (void)out;
#endif
}

void posenc_rotate_part(const void *p, const void *x, void *out, const void *cos, const void *sin, const void *n,
                        int64_t first, int64_t last)
{
#if defined(__x86_64__)
    if (posenc_level() == AVX2)
        rotate_avx2(p, x, out, cos, sin, n, first, last);
    else
#endif
        rotate_baseline(p, x, out, cos, sin, n, first, last);
}

/* Rotate what lies at these addresses. */
EXPORT void posenc_rotate(const plan *p, const void *x, void *out, const void *cos, const void *sin)
{
    posenc_advise(p, out);
    posenc_rotate_part(p, x, out, cos, sin, 0, 0, p->units);
}

/* The same of one array or two, by addresses side by side: both plans, the second 0 for one array; each x and its result;
   cos, sin. ctypes passes one pointer in a third of the time. */
EXPORT void posenc_rotate_packed(const char *addresses)
{
    int64_t each[8];
    memcpy(each, addresses, sizeof each);
    for (int i = 0; i < 2 && each[i]; i++)
        posenc_rotate((const plan *)(intptr_t)each[i], (const void *)(intptr_t)each[2 + 2 * i],
                      (void *)(intptr_t)each[3 + 2 * i], (const void *)(intptr_t)each[6], (const void *)(intptr_t)each[7]);
}
