/* The rotation of one dtype at one level.

   DTYPE names it; ELEMENT is the type in memory, WIDE that of the arithmetic; VECTOR holds LANES of them, INDICES as
   many integers. PAIRS_ARE_WORDS: the first of a pair of bfloat16 is the lower half of a word, and its upper half as
   float32 is the second. WITHOUT_NORM: rows are rotated alone. */

/* Rotate LANES pairs; all are read before any is written. */
INLINE void NAME(pairs)(int layout, const ELEMENT *x, const ELEMENT *y, ELEMENT *out, ELEMENT *across, const WIDE *cos,
                        const WIDE *sin)
{
    VECTOR one, two, cosine, sine;
    memcpy(&cosine, cos, sizeof cosine);
    memcpy(&sine, sin, sizeof sine);
    if (layout == INTERLEAVED || layout == TO_HALF) {
#if defined(PAIRS_ARE_WORDS)
        words both;
        memcpy(&both, x, sizeof both);
        one = (floats)(both << 16);
        two = (floats)(both & 0xFFFF0000);
#else
        VECTOR low = NAME(read)(x), high = NAME(read)(x + LANES);
        one = SHUFFLE(low, high, EVENS);
        two = SHUFFLE(low, high, ODDS);
#endif
    } else {
        one = NAME(read)(x);
        two = NAME(read)(y);
    }
    VECTOR first = one * cosine - two * sine, second = two * cosine + one * sine;
    if (layout == INTERLEAVED || layout == FROM_HALF) {
#if defined(PAIRS_ARE_WORDS)
        words both = IN_LEVEL(rounded)(first, second);
        memcpy(out, &both, sizeof both);
#else
        NAME(write)(out, SHUFFLE(first, second, LOWS));
        NAME(write)(out + LANES, SHUFFLE(first, second, HIGHS));
#endif
    } else {
#if defined(PAIRS_ARE_WORDS)
        IN_LEVEL(write_both_bfloat16)(out, across, first, second);
#else
        NAME(write)(out, first);
        NAME(write)(across, second);
#endif
    }
}

/* Rotate fewer than LANES pairs, or those whose channels have any stride. */
TARGET static void NAME(gathered)(const plan *p, int64_t start, const ELEMENT *x, const ELEMENT *y, ELEMENT *out,
                                  ELEMENT *across, const WIDE *cos, const WIDE *sin)
{
    places step = p->pair;
    for (; start < p->pairs; start += LANES) {
        int64_t count = p->pairs - start < LANES ? p->pairs - start : LANES;
        ELEMENT one[LANES] = {0}, two[LANES] = {0};
        WIDE c[LANES] = {0}, s[LANES] = {0};
        for (int64_t i = 0; i < count; i++) {
            one[i] = x[(start + i) * step.x];
            two[i] = y[(start + i) * step.x];
            c[i] = cos[(start + i) * step.cos];
            s[i] = sin[(start + i) * step.sin];
        }
        NAME(pairs)(HALF, one, two, one, two, c, s);
        for (int64_t i = 0; i < count; i++) {
            out[(start + i) * step.out] = one[i];
            across[(start + i) * step.out] = two[i];
        }
    }
}

static void NAME(copy)(const plan *p, const ELEMENT *x, ELEMENT *out)
{
    for (int range = 0; range < 2; range++) {
        int64_t first = p->unrotated[range][0], last = p->unrotated[range][1];
        if (p->channel.x == 1 && p->channel.out == 1)
            memcpy(out + first, x + first, (size_t)(last - first) * sizeof *x);
        else
            for (int64_t i = first; i < last; i++)
                out[i * p->channel.out] = x[i * p->channel.x];
    }
}

/* Write all channels of some rows: the blocks of pairs, then the unrotated channels. */
INLINE void NAME(rows)(int layout, const plan *p, const ELEMENT *x, ELEMENT *out, const WIDE *cos, const WIDE *sin,
                       int64_t count, places stride)
{
    int beside = layout == INTERLEAVED || layout == TO_HALF, to_beside = layout == INTERLEAVED || layout == FROM_HALF;
    int64_t pairs = p->pairs, whole = layout == ANY_STRIDE ? 0 : pairs - pairs % LANES, blocks = p->pair_blocks;
    int copies = x != out && p->unrotated[0][0] + p->unrotated[1][0] < p->unrotated[0][1] + p->unrotated[1][1];
    for (; count > 0; count--) {
        const ELEMENT *one = x + p->first.x, *two = x + p->second.x;
        ELEMENT *there = out + p->first.out, *across = out + p->second.out;
        const WIDE *c = cos, *s = sin;
        for (int64_t block = 0; block < blocks; block++) {
            for (int64_t i = 0; i < whole; i += LANES)
                NAME(pairs)(layout, one + (i << beside), two + i, there + (i << to_beside), across + i, c + i, s + i);
            if (whole < pairs)
                NAME(gathered)(p, whole, one, two, there, across, c, s);
            one += p->pair_block.x;
            two += p->pair_block.x;
            there += p->pair_block.out;
            across += p->pair_block.out;
            c += p->pair_block.cos;
            s += p->pair_block.sin;
        }
        if (copies)
            NAME(copy)(p, x, out);
        x += stride.x;
        out += stride.out;
        cos += stride.cos;
        sin += stride.sin;
    }
}

TARGET static void NAME(rows_of_layout)(const plan *p, const ELEMENT *x, ELEMENT *out, const WIDE *cos, const WIDE *sin,
                                        int64_t count, places stride)
{
    switch (p->layout) {
    case HALF: NAME(rows)(HALF, p, x, out, cos, sin, count, stride); break;
    case INTERLEAVED: NAME(rows)(INTERLEAVED, p, x, out, cos, sin, count, stride); break;
    case TO_HALF: NAME(rows)(TO_HALF, p, x, out, cos, sin, count, stride); break;
    case FROM_HALF: NAME(rows)(FROM_HALF, p, x, out, cos, sin, count, stride); break;
    default: NAME(rows)(ANY_STRIDE, p, x, out, cos, sin, count, stride);
    }
}

#if !defined(WITHOUT_NORM)

INLINE VECTOR NAME(load)(const WIDE *from)
{
    VECTOR numbers;
    memcpy(&numbers, from, sizeof numbers);
    return numbers;
}

/* Divide a row by its root mean square, and multiply it by the weight; behind its width it has zeros. */
INLINE void NAME(normalize)(WIDE *row, const WIDE *weight, const norm *n)
{
    VECTOR each[SUMS / LANES] = {{0}};
    WIDE sums[SUMS];
    for (int64_t i = 0; i < n->width; i += SUMS)
        for (int j = 0; j < SUMS / LANES; j++)
            each[j] += NAME(load)(row + i + j * LANES) * NAME(load)(row + i + j * LANES);
    memcpy(sums, each, sizeof sums);
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            sums[j] += sums[j + half];
    WIDE factor = 1 / __builtin_sqrtf(sums[0] / n->width + (WIDE)n->epsilon);
    for (int64_t i = 0; i < n->width; i += LANES) {
        VECTOR numbers = NAME(load)(row + i) * factor;
        if (n->weight)
            numbers *= NAME(load)(weight + i);
        memcpy(row + i, &numbers, sizeof numbers);
    }
}

/* Normalize and rotate some rows: in buffers, which the first-level cache holds. */
TARGET static void NAME(normalized)(const plan *p, const norm *n, const ELEMENT *x, ELEMENT *out, const WIDE *cos,
                                    const WIDE *sin, int64_t count, places stride)
{
    WIDE row[WIDEST + SUMS] = {0}, turned[WIDEST + SUMS] = {0}, weight[WIDEST + SUMS] = {0};
    ELEMENT rest[SUMS] = {0};
    int64_t width = n->width, whole = width - width % SUMS;
    for (int64_t i = 0; n->weight && i < width; i++)
        weight[i] = n->weight[i] + (WIDE)n->offset;
    for (; count > 0; count--) {
        memcpy(rest, x + whole, (size_t)(width - whole) * sizeof *x);
        for (int64_t i = 0; i < width; i += LANES) {
            VECTOR numbers = NAME(read)(i < whole ? x + i : rest + i - whole);
            memcpy(row + i, &numbers, sizeof numbers);
        }
        if (!n->rope_first)
            NAME(normalize)(row, weight, n);
        JOIN(rows_of_layout, float32, LEVEL)(p, row, turned, cos, sin, 1, stride);
        if (n->rope_first) {
            memset(turned + width, 0, SUMS * sizeof *turned); /* NaN times 0 in a row before */
            NAME(normalize)(turned, weight, n);
        }
        for (int64_t i = 0; i < width; i += 2 * LANES) {
            ELEMENT *to = i < whole ? out + i : rest + i - whole;
            VECTOR one = NAME(load)(turned + i), two = NAME(load)(turned + i + LANES);
#if defined(PAIRS_ARE_WORDS)
            IN_LEVEL(write_both_bfloat16)(to, to + LANES, one, two);
#else
            NAME(write)(to, one);
            NAME(write)(to + LANES, two);
#endif
        }
        memcpy(out + whole, rest, (size_t)(width - whole) * sizeof *x);
        memset(rest, 0, sizeof rest);
        x += stride.x;
        out += stride.out;
        cos += stride.cos;
        sin += stride.sin;
    }
}

#endif

TARGET static void NAME(units)(const plan *p, const ELEMENT *x, ELEMENT *out, const WIDE *cos, const WIDE *sin,
                               const norm *n, int64_t first, int64_t last)
{
    (void)n;
    for (int64_t unit = first; unit < last; unit++) {
        int64_t rest = unit / p->others, start = rest % p->blocks * p->block;
        int64_t tokens = p->tokens - start < p->block ? p->tokens - start : p->block;
        places at = {0, 0, 0, 0};
        at = moved(moved(at, p->by_table, rest / p->blocks), p->by_other, unit % p->others);
        at = moved(at, p->by_row, start);
        int64_t outer = p->by_token ? tokens : p->heads, inner = p->by_token ? p->heads : tokens;
        places outwards = p->by_token ? p->by_row : p->by_head, inwards = p->by_token ? p->by_head : p->by_row;
        for (int64_t i = 0; i < outer; i++) {
#if !defined(WITHOUT_NORM)
            if (n)
                NAME(normalized)(p, n, x + at.x, out + at.out, cos + at.cos, sin + at.sin, inner, inwards);
            else
#endif
                NAME(rows_of_layout)(p, x + at.x, out + at.out, cos + at.cos, sin + at.sin, inner, inwards);
            at = moved(at, outwards, 1);
        }
    }
}

#undef DTYPE
#undef ELEMENT
#undef WIDE
#undef VECTOR
#undef INDICES
#undef LANES
#undef PAIRS_ARE_WORDS
#undef WITHOUT_NORM
