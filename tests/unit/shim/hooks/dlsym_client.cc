// A library that looks functions up by dlsym; with RTLD_DEEPBIND by the C library's own.
#include <dlfcn.h>

extern "C" void* dlsym_client_look_up(void* handle, const char* name) {
  return dlsym(handle, name);
}
