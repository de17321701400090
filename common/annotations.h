// Names for clang's thread-safety attributes; empty for other compilers.
#pragma once

#if defined(__clang__)
#define PARKADE_ATTRIBUTE(x) __attribute__((x))
#else
#define PARKADE_ATTRIBUTE(x)
#endif

// abseil's headers define these two unprefixed as well, with the same meaning.
#undef GUARDED_BY
#undef NO_THREAD_SAFETY_ANALYSIS

#define CAPABILITY(x) PARKADE_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY PARKADE_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) PARKADE_ATTRIBUTE(guarded_by(x))
#define REQUIRES(...) PARKADE_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) PARKADE_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) PARKADE_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) PARKADE_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) PARKADE_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS PARKADE_ATTRIBUTE(no_thread_safety_analysis)
