#include <stdio.h>
#include "ring.h"

static int failures;

static void is(const char *what, int got, int want)
{
    if (got != want) {
        printf("test_ring.c: %s: got %d, want %d\n", what, got, want);
        failures++;
    }
}

int main(void)
{
    struct ring r = {{0}, 0, 0};
    int v = 0;
    is("ring_take of an empty ring", ring_take(&r, &v), -1);
    for (int i = 1; i <= RING_SIZE; i++)
        is("ring_put", ring_put(&r, i), 0);
    is("ring_put into a full ring", ring_put(&r, 99), -1);
    for (int i = 1; i <= RING_SIZE; i++) {
        is("ring_take", ring_take(&r, &v), 0);
        is("what ring_take gives", v, i);
    }
    return failures != 0;
}
