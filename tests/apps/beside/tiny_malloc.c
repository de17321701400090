// A preload that replaces malloc: takes memory from one arena of its own and never gives any back.
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

enum { kHead = 64 };
static const size_t kArena = (size_t)8 << 30;  // addresses; pages come as they are touched

static _Atomic(char*) arena;
static atomic_size_t used;
// How often it was asked: a test reads it to see that it was there.
atomic_size_t tiny_malloc_calls;

static void* Take(size_t align, size_t bytes) {
  char* base = atomic_load(&arena);
  if (base == NULL) {
    char* fresh = mmap(NULL, kArena, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&arena, &base, fresh)) {
      base = fresh;
    } else {
      munmap(fresh, kArena);
    }
  }
  ++tiny_malloc_calls;
  if (align < kHead) align = kHead;
  const size_t room = bytes + align + kHead;
  const size_t at = atomic_fetch_add(&used, room);
  if (bytes > kArena || at + room > kArena) {
    errno = ENOMEM;
    return NULL;
  }
  char* p = base + at + kHead;
  p += (align - (size_t)p % align) % align;
  ((size_t*)p)[-1] = bytes;
  return p;
}

void* malloc(size_t bytes) { return Take(16, bytes); }
void free(void* p) { (void)p; }
void* calloc(size_t n, size_t bytes) { return Take(16, n * bytes); }  // fresh pages are zero
void* memalign(size_t align, size_t bytes) { return Take(align, bytes); }
void* aligned_alloc(size_t align, size_t bytes) { return Take(align, bytes); }
int posix_memalign(void** out, size_t align, size_t bytes) {
  void* p = Take(align, bytes);
  if (p == NULL) return ENOMEM;
  *out = p;
  return 0;
}
void* realloc(void* old, size_t bytes) {
  void* p = Take(16, bytes);
  if (p != NULL && old != NULL) {
    const size_t had = ((size_t*)old)[-1];
    memcpy(p, old, had < bytes ? had : bytes);
  }
  return p;
}
