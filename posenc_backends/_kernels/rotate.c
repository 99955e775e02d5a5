/* One fused rotation for all array libraries: each number is read once and written once, whatever the strides.

   It works on addresses and on a plan, an array of integers that `plan.py` makes from shapes and strides. Pairs are read
   before they are written, so the result may be `x` itself. Products and sums are rounded separately, as the operators
   of a framework round them: never compile this for a target with fused products.

   `rotate_rows.h` is included once for each dtype at each level: the baseline of the architecture, and AVX2 with F16C,
   which is chosen at the first call where the processor has it. */

#define _DEFAULT_SOURCE /* madvise */
#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

enum { FLOAT64, FLOAT32, BFLOAT16, FLOAT16 };
enum { ANY_STRIDE, HALF, INTERLEAVED, TO_HALF, FROM_HALF };
enum { BASELINE, AVX2 };

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

static inline places moved(places from, places stride, int64_t times)
{
    places to = {from.x + stride.x * times, from.out + stride.out * times, from.cos + stride.cos * times,
                 from.sin + stride.sin * times};
    return to;
}

static inline uint32_t bits_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline float from_bfloat16(uint16_t number) { return float_of((uint32_t)number << 16); }

/* Round to nearest even; every NaN becomes 0x7FC0. */
static inline uint16_t to_bfloat16(float number)
{
    uint32_t bits = bits_of(number), rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return number != number ? 0x7FC0 : rounded;
}

#if defined(__aarch64__)

static inline float from_float16(uint16_t number)
{
    __fp16 half;
    memcpy(&half, &number, sizeof half);
    return half;
}

static inline uint16_t to_float16(float number)
{
    __fp16 half = (__fp16)number;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

#else

/* Without branches, so that compilers rotate several at a time: a product by 2^112 moves the exponent, exactly. */
static inline float from_float16(uint16_t number)
{
    uint32_t magnitude = number & 0x7FFF, sign = (uint32_t)(number & 0x8000) << 16;
    uint32_t special = -(uint32_t)(magnitude >= 0x7C00) & 0x7F800000;
    return float_of(bits_of(float_of(magnitude << 13) * 0x1p112f) | special | sign);
}

/* Round to nearest even; every NaN becomes a quiet one. */
static inline uint16_t to_float16(float number)
{
    uint32_t bits = bits_of(number), magnitude = bits & 0x7FFFFFFF, sign = bits >> 16 & 0x8000;
    uint32_t normal = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    uint32_t tiny = bits_of(float_of(magnitude) + 0.5f) - 0x3F000000;
    uint32_t is_tiny = -(uint32_t)((int32_t)magnitude < 0x38800000);
    uint32_t is_large = -(uint32_t)((int32_t)magnitude > 0x477FEFFF);
    uint32_t is_nan = -(uint32_t)((int32_t)magnitude > 0x7F800000);
    uint32_t finite = (is_tiny & tiny) | (~is_tiny & normal);
    return (uint16_t)(sign | (~is_large & finite) | (is_large & (0x7C00 | (is_nan & 0x200))));
}

#endif

/* What other targets would get wrong silently, so that they are built without the kernel. */
#if FLT_EVAL_METHOD || defined(__FAST_MATH__) || defined(__FMA__)
#error "Products and sums must be rounded to their own type, one by one."
#endif
_Static_assert(sizeof(void *) == 8, "Addresses are passed as integers of 64 bits.");

#define JOIN_NAMES(one, two, three) one##_##two##_##three
#define JOIN(one, two, three) JOIN_NAMES(one, two, three)
#define JOIN_LEVEL_NAMES(one, two) one##_##two
#define JOIN_LEVEL(one, two) JOIN_LEVEL_NAMES(one, two)
#define NAME(name) JOIN(name, DTYPE, LEVEL)

#define LEVEL baseline
#define TARGET
#include "rotate_level.h"
#undef LEVEL
#undef TARGET

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define LEVEL avx2
#define TARGET __attribute__((target("avx2,f16c")))
#define HAS_F16C
#include "rotate_level.h"

/* Asked of the processor itself: `__builtin_cpu_supports` answers 0 in libraries that some compilers link. */
static int best_level(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (7u << 27)) != 7u << 27) /* OSXSAVE, AVX, F16C */
        return BASELINE;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return BASELINE;
    return b & 1u << 5 ? AVX2 : BASELINE;
}

#else

static int best_level(void) { return BASELINE; }

#endif

static int level = -1;

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
EXPORT void posenc_advise(const plan *p, void *out)
{
#if defined(MADV_HUGEPAGE)
    uintptr_t begin = ((uintptr_t)out + 4095) & ~(uintptr_t)4095;
    if (p->fresh >= 1 << 22)
        madvise((void *)begin, (uintptr_t)out + p->fresh - begin, MADV_HUGEPAGE);
#else
    (void)p, (void)out;
#endif
}

/* Rotate the units from `first` to `last`; threads may share the units of one plan. */
EXPORT void posenc_rotate_part(const plan *p, const void *x, void *out, const void *cos, const void *sin, int64_t first,
                               int64_t last)
{
#if defined(__x86_64__)
    if (posenc_level() == AVX2)
        rotate_avx2(p, x, out, cos, sin, first, last);
    else
#endif
        rotate_baseline(p, x, out, cos, sin, first, last);
}

/* Rotate what lies at these addresses. */
EXPORT void posenc_rotate(const plan *p, const void *x, void *out, const void *cos, const void *sin)
{
    posenc_advise(p, out);
    posenc_rotate_part(p, x, out, cos, sin, 0, p->units);
}
