/* A queue of at most RING_SIZE numbers. */
#define RING_SIZE 4

struct ring {
    int slots[RING_SIZE];
    int first; /* where the oldest is */
    int count;
};

int ring_put(struct ring *r, int value);   /* 0, or -1 when it is full */
int ring_take(struct ring *r, int *value); /* 0, or -1 when it is empty */
