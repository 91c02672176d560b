/* Preloaded into a server, adds an offset to its wall clock: 8 bytes in the file that CLOCK_OFFSET names, in nanoseconds.
 * By system calls alone: a server's allocator asks for the time before any library is ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) offset = map;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    long failed = syscall(SYS_clock_gettime, id, out);
    if (!failed && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t at = out->tv_sec * 1000000000LL + out->tv_nsec + *offset;
        out->tv_sec = at / 1000000000LL;
        out->tv_nsec = at % 1000000000LL;
    }
    return (int)failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
