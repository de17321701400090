// A library that looks functions up by the dlsym of one version of the C library, chosen at link
// time as it was for the libraries in use: GLIBC_2.2.5 before 2.34, GLIBC_2.34 since.
extern void* versioned_dlsym(void* handle, const char* name);
__asm__(".symver versioned_dlsym, dlsym@" PARKADE_DLSYM_VERSION);

void* look_up_by_version(void* handle, const char* name) { return versioned_dlsym(handle, name); }
