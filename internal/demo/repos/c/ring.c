#include "ring.h"

int ring_put(struct ring *r, int value)
{
    if (r->count > RING_SIZE)
        return -1;
    r->slots[(r->first + r->count) % RING_SIZE] = value;
    r->count++;
    return 0;
}

int ring_take(struct ring *r, int *value)
{
    if (r->count == 0)
        return -1;
    *value = r->slots[r->first];
    r->first = (r->first + 1) % RING_SIZE;
    r->count--;
    return 0;
}
