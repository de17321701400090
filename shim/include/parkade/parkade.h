/* parkade.h: what a program may tell Parkade of itself. C99 and C++.
 *
 * Nothing has to be linked: each call is one of the preloaded libparkade.so, looked for by the
 * first call of each source file. In a process without it a call does nothing and says PARKADE_OK,
 * so that programs can make them always; parkade_is_present() tells.
 *
 * With glibc before 2.34 an executable that is not position-independent finds libparkade.so only
 * when it is linked with -ldl.
 */
#pragma once

#include <dlfcn.h>

enum {
  PARKADE_OK = 0,
  PARKADE_E_INVAL = -1,  /* an argument is out of its range */
  PARKADE_E_STATE = -2,  /* the call does not fit what went before */
  PARKADE_E_NOSPACE = -3 /* a limit below is reached */
};

#define PARKADE_TAG_BYTES 32 /* of a tag's name, with the NUL behind it */
#define PARKADE_TAG_DEPTH 16 /* how deep tags nest on a thread */

#define PARKADE_BEFORE_PAUSE 1
#define PARKADE_AFTER_RESUME 2
#define PARKADE_HOOK_MOST_MS 10000

#ifdef PARKADE_IMPLEMENTATION
#define PARKADE_CALL(name, parameters, arguments) int name parameters;
#ifdef __cplusplus
extern "C" {
#endif
#else
#pragma weak dlsym /* null where neither libc nor the program has it */
/* The function, or null; `known` has been looked for when it is not null, and was not found when it
 * is its own address. */
static inline void* parkade_find(void** known, const char* name) {
  void* found = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (found == 0) {
    found = dlsym != 0 ? dlsym((void*)0 /* RTLD_DEFAULT */, name) : 0;
    if (found == 0) found = (void*)known;
    __atomic_store_n(known, found, __ATOMIC_RELAXED);
  }
  return found == (void*)known ? 0 : found;
}
#define PARKADE_CALL(name, parameters, arguments)                                            \
  static inline int name parameters {                                                        \
    static void* known;                                                                      \
    void* const found = parkade_find(&known, #name);                                         \
    return found != 0 ? (__extension__(int(*) parameters) found)arguments : (int)PARKADE_OK; \
  }
#endif

/* From now on GPU memory that this thread allocates (cudaMalloc, cuMemAlloc and its kin,
 * cuMemCreate) bears the tag, until parkade_tag_pop. Tags nest, and the innermost counts; without
 * one, memory bears the process's own, which PARKADE_TAG in the environment names, else "default".
 * Pauses choose by tag what becomes of the bytes. What a caching allocator keeps and gives out
 * again stays with the tag that it was allocated under.
 *
 * `tag`: 1 to 31 letters, digits and signs of "_-.:/"; copied. PARKADE_E_INVAL: it is none.
 * PARKADE_E_NOSPACE: deeper than PARKADE_TAG_DEPTH. Nothing is pushed then. Any thread; each has
 * tags of its own. */
PARKADE_CALL(parkade_tag_push, (const char* tag), (tag))

/* Ends the latest parkade_tag_push of this thread that has not been ended. PARKADE_E_STATE: there
 * is none. */
PARKADE_CALL(parkade_tag_pop, (void), ())

/* Has `function(user)` run before each pause of this process, while it still runs, or after it runs
 * again, also after a pause that was undone. Hooks run one after the other in the order of these
 * calls, on a thread of libparkade.so's with every signal blocked and no context current; they may
 * use the GPU. One that returns another value than 0 before a pause, or takes longer than
 * `timeout_ms`, 1 to PARKADE_HOOK_MOST_MS, lets the pause fail: the process runs on, and the error
 * has the hook's name. Hooks of one pause have PARKADE_HOOK_MOST_MS in all. After a resume it is an
 * event in `parkade show`. A hook that runs over its time runs on; until it has ended pauses fail,
 * and what runs after a resume waits for it. It must return, not end its thread; one registered
 * meanwhile runs with the next pause.
 *
 * `name`: as a tag's. The hook's number, above 0; PARKADE_E_INVAL; PARKADE_E_NOSPACE: 32 are
 * registered. Any thread. A forked child has its parent's hooks. */
PARKADE_CALL(parkade_hook_add,
             (int when, const char* name, int (*function)(void* user), void* user,
              unsigned timeout_ms),
             (when, name, function, user, timeout_ms))

/* Ends what parkade_hook_add has begun, and waits for the hook to return where it runs on another
 * thread. PARKADE_E_INVAL: no hook has this number; PARKADE_E_STATE: after PARKADE_HOOK_MOST_MS it
 * still runs, so that `user` must stay; it does not run again. */
PARKADE_CALL(parkade_hook_remove, (int hook), (hook))

#ifdef PARKADE_IMPLEMENTATION
#ifdef __cplusplus
}
#endif
#else
/* 1 in a process with libparkade.so, 0 in another. */
static inline int parkade_is_present(void) {
  return dlsym != 0 && dlsym((void*)0, "parkade_version") != 0;
}
#endif

#undef PARKADE_CALL

/* Optimizer state outside HBM. */
#include "parkade_store.h"
