/* The rotation of every dtype at one level: LEVEL is its name, TARGET its instructions. */

#define DTYPE float64
#define ELEMENT double
#define WIDE double
#define READ(number) (number)
#define WRITE(number) (number)
#include "rotate_rows.h"

#define DTYPE float32
#define ELEMENT float
#define WIDE float
#define READ(number) (number)
#define WRITE(number) (number)
#include "rotate_rows.h"

#define DTYPE bfloat16
#define ELEMENT uint16_t
#define WIDE float
#define READ from_bfloat16
#define WRITE to_bfloat16
#include "rotate_rows.h"

#define DTYPE float16
#define ELEMENT uint16_t
#define WIDE float
#define READ from_float16
#define WRITE to_float16
#include "rotate_rows.h"

static TARGET void JOIN_LEVEL(rotate, LEVEL)(const plan *p, const void *x, void *out, const void *cos, const void *sin,
                                             int64_t first, int64_t last)
{
    switch (p->dtype) {
    case FLOAT64: JOIN(units, float64, LEVEL)(p, x, out, cos, sin, first, last); break;
    case FLOAT32: JOIN(units, float32, LEVEL)(p, x, out, cos, sin, first, last); break;
    case BFLOAT16: JOIN(units, bfloat16, LEVEL)(p, x, out, cos, sin, first, last); break;
    case FLOAT16: JOIN(units, float16, LEVEL)(p, x, out, cos, sin, first, last); break;
    }
}
