/* The cosines and sines of Llama 2 beside the golden vectors: cc rope.c -lm && ./a.out rope_models.safetensors */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *file;      /* all of it; the format is little-endian, as this machine has to be */
static uint64_t header; /* bytes of JSON, after eight that say how many */

static const void *tensor(const char *name, long *bytes) {
    char key[128];
    long first, last;
    snprintf(key, sizeof key, "\"%s\":{", name);
    char *entry = strstr(file + 8, key), *offsets = entry ? strstr(entry, "data_offsets\":[") : NULL;
    if (!offsets || sscanf(offsets, "data_offsets\":[%ld,%ld]", &first, &last) != 2) exit(2);
    *bytes = last - first;
    return file + 8 + header + first;
}

int main(int count, char **arguments) {
    FILE *in = count > 1 ? fopen(arguments[1], "rb") : NULL;
    if (!in || fseek(in, 0, SEEK_END)) return 2;
    long size = ftell(in), bytes, rows, columns;
    file = calloc(size + 1, 1), rewind(in);
    if (fread(file, 1, size, in) != (size_t)size) return 2;
    memcpy(&header, file, 8);
    const int64_t *positions = tensor("llama-2-7b/positions", &rows), *pairs = tensor("llama-2-7b/columns", &columns);
    const double *truth = tensor("llama-2-7b/cos_sin", &bytes); /* (positions, pairs, 2) */
    double worst = 0;
    for (long i = 0; i < bytes / 8; i++) {
        double angle = positions[i / 2 / (columns / 8)] * pow(10000, -2.0 * pairs[i / 2 % (columns / 8)] / 128);
        float mine = i % 2 ? sin(angle) : cos(angle); /* put your own here */
        int exponent;
        frexp(truth[i], &exponent); /* the unit in the last place of float32 */
        worst = fmax(worst, fabs(mine - truth[i]) / ldexp(1, truth[i] == 0 ? -149 : exponent - 24));
    }
    printf("%s (worst %.2f ulp)\n", worst <= 0.5001 ? "conforms" : "does not conform", worst);
    return worst > 0.5001;
}
