/* The rotation of every dtype at one level: LEVEL is its name, TARGET its instructions, FLOATS and DOUBLES the sizes of
   its vectors. */

typedef double doubles __attribute__((vector_size(DOUBLES * 8)));
typedef int64_t longs __attribute__((vector_size(DOUBLES * 8)));
typedef float floats __attribute__((vector_size(FLOATS * 4)));
typedef int32_t ints __attribute__((vector_size(FLOATS * 4)));
typedef uint32_t words __attribute__((vector_size(FLOATS * 4)));
typedef uint16_t halves __attribute__((vector_size(FLOATS * 2)));

INLINE doubles IN_LEVEL(read_float64)(const float64 *from)
{
    doubles numbers;
    memcpy(&numbers, from, sizeof numbers);
    return numbers;
}

INLINE floats IN_LEVEL(read_float32)(const float32 *from)
{
    floats numbers;
    memcpy(&numbers, from, sizeof numbers);
    return numbers;
}

INLINE void IN_LEVEL(write_float64)(float64 *to, doubles numbers) { memcpy(to, &numbers, sizeof numbers); }

INLINE void IN_LEVEL(write_float32)(float32 *to, floats numbers) { memcpy(to, &numbers, sizeof numbers); }

/* Numbers of 16 bits become the upper halves of words, and back. Compilers make slow code of CONVERT on x86. */
#if defined(HAS_F16C)

INLINE words IN_LEVEL(read_halves)(const bits16 *from)
{
    return (words)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)) << 16;
}

INLINE void IN_LEVEL(write_halves)(bits16 *to, words numbers)
{
    __m256i low = (__m256i)(numbers >> 16);
    __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128((__m128i *)to, packed);
}

#elif defined(__x86_64__)

INLINE words IN_LEVEL(read_halves)(const bits16 *from)
{
    return (words)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const __m128i *)from));
}

INLINE void IN_LEVEL(write_halves)(bits16 *to, words numbers)
{
    __m128i low = (__m128i)((ints)numbers >> 16);
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi32(low, low));
}

#else

INLINE words IN_LEVEL(read_halves)(const bits16 *from)
{
    halves numbers;
    memcpy(&numbers, from, sizeof numbers);
    return CONVERT(numbers, words) << 16;
}

INLINE void IN_LEVEL(write_halves)(bits16 *to, words numbers)
{
    halves low = CONVERT(numbers >> 16, halves);
    memcpy(to, &low, sizeof low);
}

#endif

INLINE floats IN_LEVEL(read_bfloat16)(const bits16 *from) { return (floats)IN_LEVEL(read_halves)(from); }

/* Return words of two numbers, the first in their lower halves, rounded to nearest even; every NaN becomes 0x7FC0. */
#if defined(HAS_F16C)

INLINE words IN_LEVEL(rounded)(floats first, floats second)
{
    const __m256i infinity = _mm256_set1_epi16(0x7F80), quiet = _mm256_set1_epi16(0x7FC0);
    __m256i low = (__m256i)first, high = (__m256i)second;
    __m256i kept = _mm256_blend_epi16(_mm256_srli_epi32(low, 16), high, 0xAA);
    __m256i rest = _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xAA);
    /* up if more than a half is left, or a half of an odd number: if so, this leaves the highest bit */
    __m256i up = _mm256_srli_epi16(_mm256_subs_epu16(rest, _mm256_andnot_si256(kept, _mm256_set1_epi16(1))), 15);
    __m256i is_nan = _mm256_cmpgt_epi16(_mm256_and_si256(kept, _mm256_set1_epi16(0x7FFF)), infinity);
    return (words)_mm256_blendv_epi8(_mm256_add_epi16(kept, up), quiet, is_nan);
}

INLINE void IN_LEVEL(write_both_bfloat16)(bits16 *to, bits16 *across, floats first, floats second)
{
    __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3,
                                     6, 7, 10, 11, 14, 15);
    __m256i apart = _mm256_shuffle_epi8((__m256i)IN_LEVEL(rounded)(first, second), order);
    apart = _mm256_permute4x64_epi64(apart, 0xD8);
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(apart));
    _mm_storeu_si128((__m128i *)across, _mm256_extracti128_si256(apart, 1));
}

#else

INLINE words IN_LEVEL(round_halves)(floats number)
{
    words bits = (words)number, is_nan = (words)(number != number);
    return (is_nan & 0x7FC00000) | (~is_nan & (bits + 0x7FFF + (bits >> 16 & 1)));
}

INLINE words IN_LEVEL(rounded)(floats first, floats second)
{
    return IN_LEVEL(round_halves)(first) >> 16 | (IN_LEVEL(round_halves)(second) & 0xFFFF0000);
}

INLINE void IN_LEVEL(write_both_bfloat16)(bits16 *to, bits16 *across, floats first, floats second)
{
    IN_LEVEL(write_halves)(to, IN_LEVEL(round_halves)(first));
    IN_LEVEL(write_halves)(across, IN_LEVEL(round_halves)(second));
}

#endif

#if defined(HAS_F16C)

INLINE floats IN_LEVEL(read_float16)(const bits16 *from)
{
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

INLINE void IN_LEVEL(write_float16)(bits16 *to, floats numbers)
{
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)numbers, 0));
}

#elif defined(__aarch64__)

typedef __fp16 half_floats __attribute__((vector_size(FLOATS * 2)));

INLINE floats IN_LEVEL(read_float16)(const bits16 *from)
{
    half_floats numbers;
    memcpy(&numbers, from, sizeof numbers);
    return CONVERT(numbers, floats);
}

INLINE void IN_LEVEL(write_float16)(bits16 *to, floats numbers)
{
    half_floats rounded = CONVERT(numbers, half_floats);
    memcpy(to, &rounded, sizeof rounded);
}

#else

/* The exponent is moved from a bias of 15 to one of 127; float32 arithmetic normalises numbers without one. */
INLINE floats IN_LEVEL(read_float16)(const bits16 *from)
{
    words bits = IN_LEVEL(read_halves)(from), magnitude = (bits & 0x7FFF0000) >> 3;
    words is_tiny = (words)((ints)magnitude < 0x00800000), is_special = (words)((ints)magnitude > 0x0F7FFFFF);
    floats tiny = (floats)(magnitude + 0x38800000) - 0x1p-14f;
    words others = magnitude + 0x38000000 + (is_special & 0x38000000);
    return (floats)((bits & 0x80000000) | (is_tiny & (words)tiny) | (~is_tiny & others));
}

/* Round to nearest even; every NaN becomes a quiet one. */
INLINE void IN_LEVEL(write_float16)(bits16 *to, floats numbers)
{
    words bits = (words)numbers, magnitude = bits & 0x7FFFFFFF;
    words is_tiny = (words)((ints)magnitude < 0x38800000), is_large = (words)((ints)magnitude > 0x477FEFFF);
    words is_nan = (words)((ints)magnitude > 0x7F800000);
    words normal = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) << 3;
    words tiny = ((words)((floats)magnitude + 0.5f) - 0x3F000000) << 16;
    words finite = (is_tiny & tiny) | (~is_tiny & normal), special = 0x7C000000 | (is_nan & 0x02000000);
    IN_LEVEL(write_halves)(to, (bits & 0x80000000) | (~is_large & finite) | (is_large & special));
}

#endif

#define DTYPE float64
#define ELEMENT float64
#define WIDE float64
#define VECTOR doubles
#define INDICES longs
#define LANES DOUBLES
#define WITHOUT_NORM
#include "rotate_rows.h"

#define DTYPE float32
#define ELEMENT float32
#define WIDE float32
#define VECTOR floats
#define INDICES ints
#define LANES FLOATS
#include "rotate_rows.h"

#define DTYPE bfloat16
#define ELEMENT bits16
#define WIDE float32
#define VECTOR floats
#define INDICES ints
#define LANES FLOATS
#define PAIRS_ARE_WORDS
#include "rotate_rows.h"

#define DTYPE float16
#define ELEMENT bits16
#define WIDE float32
#define VECTOR floats
#define INDICES ints
#define LANES FLOATS
#include "rotate_rows.h"

TARGET static void IN_LEVEL(rotate)(const plan *p, const void *x, void *out, const void *cos, const void *sin,
                                    const norm *n, int64_t first, int64_t last)
{
    switch (p->dtype) {
    case FLOAT64: JOIN(units, float64, LEVEL)(p, x, out, cos, sin, n, first, last); break;
    case FLOAT32: JOIN(units, float32, LEVEL)(p, x, out, cos, sin, n, first, last); break;
    case BFLOAT16: JOIN(units, bfloat16, LEVEL)(p, x, out, cos, sin, n, first, last); break;
    case FLOAT16: JOIN(units, float16, LEVEL)(p, x, out, cos, sin, n, first, last); break;
    }
}
