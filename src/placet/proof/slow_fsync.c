/* Makes fsync and fdatasync take PLACET_SLOW_FSYNC_US microseconds longer, so that a benchmark on a file system in
   memory pays for durability as on a disk, and every run pays the same. Build: cc -shared -fPIC -O2 -o slow_fsync.so
   slow_fsync.c -ldl; use: LD_PRELOAD=./slow_fsync.so PLACET_SLOW_FSYNC_US=1000 program */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

long placet_fsyncs; /* how often this process asked, for who wants to compare durability */

static int slowed(const char *name, int descriptor)
{
    const char *text = getenv("PLACET_SLOW_FSYNC_US");
    long microseconds = text ? atol(text) : 0;
    struct timespec left = { microseconds / 1000000, (microseconds % 1000000) * 1000 };
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    __atomic_fetch_add(&placet_fsyncs, 1, __ATOMIC_RELAXED);
    while (microseconds > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) { }
    return real(descriptor);
}

int fsync(int descriptor) { return slowed("fsync", descriptor); }
int fdatasync(int descriptor) { return slowed("fdatasync", descriptor); }
