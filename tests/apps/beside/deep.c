// A library that looks the driver's functions up; opened with RTLD_DEEPBIND, by the C library's
// own.
#include <dlfcn.h>

void* deep_look_up(void* handle, const char* name) { return dlsym(handle, name); }
