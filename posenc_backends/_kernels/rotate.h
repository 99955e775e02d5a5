/* What `rotate.c` computes for others: for `xla.c` and for Python, which loads it by name. */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Ask Linux for large pages, for a new result. */
EXPORT void posenc_advise(const void *plan, void *out);

/* Rotate the units from `first` to `last`, with a norm unless it is 0; threads may share the units of one plan. */
EXPORT void posenc_rotate_part(const void *plan, const void *x, void *out, const void *cos, const void *sin,
                               const void *norm, int64_t first, int64_t last);
