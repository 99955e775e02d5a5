/* RoPE for `posenc check --raw`: cc rope.c -lm -o rope && posenc check --exec ./rope --raw
   Arguments: rotation q=float32:2,4,17,64 k=float32:2,2,17,64 positions=int64:17 (or 2,17); arrays come by the standard
   input, one after the other, and go to the standard output. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments) {
    long shape[2][4], rows, length;
    if (count != 5 || strcmp(arguments[1], "rotation")) return fputs("only rotation is here\n", stderr), 2;
    for (int i = 0; i < 2; i++) {
        long *s = shape[i];
        if (sscanf(strchr(arguments[2 + i], '=') + 1, "float32:%ld,%ld,%ld,%ld", s, s + 1, s + 2, s + 3) != 4)
            return fputs("only float32 is here\n", stderr), 2;
    }
    int axes = sscanf(arguments[4], "positions=int64:%ld,%ld", &rows, &length);
    if (axes < 2) length = rows, rows = 1;
    long sizes[2];
    float *tokens[2];
    for (int i = 0; i < 2; i++) {
        sizes[i] = shape[i][0] * shape[i][1] * shape[i][2] * shape[i][3];
        tokens[i] = malloc(sizes[i] * sizeof(float));
        if (fread(tokens[i], sizeof(float), sizes[i], stdin) != (size_t)sizes[i]) return 2;
    }
    int64_t *positions = malloc(rows * length * sizeof(int64_t));
    if (fread(positions, sizeof(int64_t), rows * length, stdin) != (size_t)(rows * length)) return 2;
    for (int i = 0; i < 2; i++) {
        long heads = shape[i][1], width = shape[i][3], half = width / 2;
        for (long row = 0; row < shape[i][0] * heads * length; row++) {
            float *x = tokens[i] + row * width;
            long batch = row / (heads * length);
            int64_t position = positions[(rows > 1 ? batch * length : 0) + row % length];
            for (long pair = 0; pair < half; pair++) { /* put your own here */
                double angle = position * pow(10000, -2.0 * pair / width);
                float c = cos(angle), s = sin(angle), first = x[pair], second = x[pair + half];
                x[pair] = first * c - second * s;
                x[pair + half] = second * c + first * s;
            }
        }
        fwrite(tokens[i], sizeof(float), sizes[i], stdout);
    }
    return 0;
}
