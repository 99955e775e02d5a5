/* RoPE beside the golden vectors of kernels, or the name of its mistake: cc rope.c -lm -o rope && ./rope golden */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64 };
static const char *folder, *wanted = "far-half-64"; /* the case */

static void *bytes_at(const char *file, long first, long size) {
    char path[512];
    void *bytes = malloc(size);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, first, SEEK_SET) || fread(bytes, 1, size, in) != (size_t)size) exit(2);
    fclose(in);
    return bytes;
}

/* Return how far our numbers lie from others, in ulp of float32 of the length of each pair. */
static double error(const float *mine, const void *others, int is_float64, long count) {
    double worst = 0;
    for (long i = 0; i < count; i++) {
        long pair = i % WIDTH < WIDTH / 2 ? i + WIDTH / 2 : i - WIDTH / 2;
        double other = is_float64 ? ((const double *)others)[i] : ((const float *)others)[i];
        int exponent;
        frexp(hypot(mine[i], mine[pair]), &exponent);
        worst = fmax(worst, fabs(mine[i] - other) / ldexp(1, exponent - 24));
    }
    return worst;
}

int main(int argc, char **arguments) {
    char path[512], line[1024], file[64], dtype[8], shape[64], role[16], name[128], key[128], mistake[128] = "unknown";
    folder = argc > 1 ? arguments[1] : "golden";
    snprintf(path, sizeof path, "%s/index.txt", folder);
    FILE *index = fopen(path, "r");
    const int64_t *positions = NULL;
    float *mine = NULL;
    double ulp = 0;
    long first, batch, heads, length, size = 0;
    if (!index) return 2;
    while (fgets(line, sizeof line, index)) { /* inputs stand before outputs, and these before mistakes */
        if (sscanf(line, "%63s %ld %7s %63s %15s %127s %127s", file, &first, dtype, shape, role, name, key) != 7) return 2;
        if (strcmp(name, wanted)) continue;
        if (!strcmp(key, "positions")) positions = bytes_at(file, first, 8 * atol(shape));
        if (!strcmp(key, "q")) {
            if (sscanf(shape, "%ld,%ld,%ld", &batch, &heads, &length) != 3 || !positions) return 2;
            size = batch * heads * length * WIDTH;
            const double *q = bytes_at(file, first, 8 * size);
            mine = malloc(size * sizeof *mine);
            for (long i = 0; i < size; i++) { /* put your own here */
                long pair = i % WIDTH % (WIDTH / 2), start = i - i % WIDTH;
                double angle = positions[i / WIDTH % length] * pow(10000, -2.0 * pair / WIDTH);
                double one = q[start + pair], two = q[start + pair + WIDTH / 2];
                mine[i] = i % WIDTH < WIDTH / 2 ? one * cos(angle) - two * sin(angle) : two * cos(angle) + one * sin(angle);
            }
        }
        if (!strcmp(key, "rotated_q")) ulp = error(mine, bytes_at(file, first, 8 * size), 1, size);
        if (strncmp(key, "rotated_q.mistake.", 18) || strcmp(mistake, "unknown")) continue; /* the simplest is first */
        if (error(mine, bytes_at(file, first, 4 * size), 0, size) < 8)
            strcpy(mistake, key + 18), strchr(mistake, '.')[0] = 0;
    }
    if (ulp <= 4) return printf("conforms (worst %.2f ulp)\n", ulp), 0;
    return printf("does not conform (%.3g ulp): %s\n", ulp, mistake), 1;
}
