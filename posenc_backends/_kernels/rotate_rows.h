/* The rotation of one dtype at one level.

   DTYPE and LEVEL name it; ELEMENT is the type in memory and WIDE that of the arithmetic, READ and WRITE convert. */

#define PAIRS(NAMED, X0, X1, O0, O1)                                                                                   \
    static TARGET void NAME(NAMED)(const ELEMENT *x, const ELEMENT *y, ELEMENT *o, ELEMENT *q, const WIDE *c,          \
                                   const WIDE *s, int64_t pairs)                                                       \
    {                                                                                                                  \
        (void)y, (void)q;                                                                                              \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < pairs; i++) {                                                                          \
            WIDE one = READ(X0), two = READ(X1);                                                                       \
            ELEMENT there = WRITE(one * c[i] - two * s[i]), across = WRITE(two * c[i] + one * s[i]);                   \
            O0 = there;                                                                                                \
            O1 = across;                                                                                               \
        }                                                                                                              \
    }

PAIRS(half, x[i], y[i], o[i], q[i])
PAIRS(interleaved, x[2 * i], x[2 * i + 1], o[2 * i], o[2 * i + 1])
PAIRS(to_half, x[2 * i], x[2 * i + 1], o[i], q[i])
PAIRS(from_half, x[i], y[i], o[2 * i], o[2 * i + 1])

/* Rotate the pairs of a block whatever the strides of the channels are. */
static TARGET void NAME(any_stride)(const plan *p, const ELEMENT *x, const ELEMENT *y, ELEMENT *o, ELEMENT *q,
                                    const WIDE *c, const WIDE *s)
{
    places step = p->pair;
    for (int64_t i = 0; i < p->pairs; i++) {
        WIDE one = READ(x[i * step.x]), two = READ(y[i * step.x]), cosine = c[i * step.cos], sine = s[i * step.sin];
        ELEMENT there = WRITE(one * cosine - two * sine), across = WRITE(two * cosine + one * sine);
        o[i * step.out] = there;
        q[i * step.out] = across;
    }
}

/* Write all channels of one row: the blocks of pairs, then the unrotated channels. */
static TARGET void NAME(row)(const plan *p, const ELEMENT *x, ELEMENT *out, const WIDE *cos, const WIDE *sin)
{
    places first = p->first, second = p->second;
    for (int64_t block = 0; block < p->pair_blocks; block++) {
        const ELEMENT *one = x + first.x, *two = x + second.x;
        ELEMENT *there = out + first.out, *across = out + second.out;
        const WIDE *c = cos + first.cos, *s = sin + first.sin;
        switch (p->layout) {
        case HALF: NAME(half)(one, two, there, across, c, s, p->pairs); break;
        case INTERLEAVED: NAME(interleaved)(one, two, there, across, c, s, p->pairs); break;
        case TO_HALF: NAME(to_half)(one, two, there, across, c, s, p->pairs); break;
        case FROM_HALF: NAME(from_half)(one, two, there, across, c, s, p->pairs); break;
        default: NAME(any_stride)(p, one, two, there, across, c, s);
        }
        first = moved(first, p->pair_block, 1);
        second = moved(second, p->pair_block, 1);
    }
    for (int range = 0; range < 2 && out != x; range++)
        for (int64_t i = p->unrotated[range][0]; i < p->unrotated[range][1]; i++)
            out[i * p->channel.out] = x[i * p->channel.x];
}

static TARGET void NAME(units)(const plan *p, const void *x, void *out, const void *cos, const void *sin,
                               int64_t first, int64_t last)
{
    for (int64_t unit = first; unit < last; unit++) {
        int64_t rest = unit / p->others, start = rest % p->blocks * p->block;
        int64_t tokens = p->tokens - start < p->block ? p->tokens - start : p->block;
        places at = {0, 0, 0, 0};
        at = moved(moved(at, p->by_table, rest / p->blocks), p->by_other, unit % p->others);
        at = moved(at, p->by_row, start);
        int64_t outer = p->by_token ? tokens : p->heads, inner = p->by_token ? p->heads : tokens;
        places outwards = p->by_token ? p->by_row : p->by_head, inwards = p->by_token ? p->by_head : p->by_row;
        for (int64_t i = 0; i < outer; i++) {
            places row = moved(at, outwards, i);
            for (int64_t j = 0; j < inner; j++) {
                NAME(row)(p, (const ELEMENT *)x + row.x, (ELEMENT *)out + row.out, (const WIDE *)cos + row.cos,
                          (const WIDE *)sin + row.sin);
                row = moved(row, inwards, 1);
            }
        }
    }
}

#undef PAIRS
#undef DTYPE
#undef ELEMENT
#undef WIDE
#undef READ
#undef WRITE
