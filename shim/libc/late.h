// Functions of libc that the shim may not need at load: glibc before 2.34 keeps them in libdl and
// libpthread, which not every process has.
#pragma once

namespace parkade::shim {

// The function `symbol` of the C library, wherever this glibc keeps it; null when the process has
// not loaded that part. Any thread; never the shim's own dlsym or dlvsym.
void* FindInLibc(const char* symbol);

// dlopen(path, flags). Null on failure, or when the process has no dlopen.
void* LateDlopen(const char* path, int flags);
// dlsym(handle, name) as a call from the shim, which RTLD_NEXT means the files behind; null when
// there is none, and dlerror then has nothing to say.
void* LateDlsym(void* handle, const char* name);
void LateDlclose(void* handle);

}  // namespace parkade::shim
