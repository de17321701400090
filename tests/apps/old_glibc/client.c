// A program for scripts/check-old-glibc, linked against an old C library: opens the driver, looks
// it up by every route, makes a context and forks. Exit code 0 when each answer came from the
// library named in the argument.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

static void From(const char* wanted, const char* what, void* address) {
  Dl_info info = {0};
  const char* file = address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : "nothing";
  const char* slash = strrchr(file, '/');
  if (strcmp(slash == NULL ? file : slash + 1, wanted) == 0) return;
  fprintf(stderr, "%s comes from %s\n", what, file);
  failed = 1;
}

int main(int argc, char** argv) {
  const char* shim = argc > 1 ? argv[1] : "libparkade.so";
  From("nothing", "cuInit before the driver", dlsym(RTLD_DEFAULT, "cuInit"));
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  From(shim, "dlsym", dlsym(driver, "cuInit"));
  From(shim, "dlsym of RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  From(shim, "dlsym of RTLD_NEXT", dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
  From("libcuda.so.1", "a name of the driver alone", dlsym(driver, "cuNotYetInvented"));
  From("libc.so.6", "dlvsym", dlvsym(RTLD_DEFAULT, "getpid", "GLIBC_2.2.5"));

  // The idle driver's context is the null that it leaves: one of ours stands in for it.
  int (*retain)(void**, int) = (int (*)(void**, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
  void* context = &context;
  if (retain == NULL || retain(&context, 0) != 0) failed = 1;
  // The shim has made its parts now, or has stepped aside; the program goes on in either case.
  const pid_t child = fork();
  if (child == 0) _exit(retain(&context, 0) == 0 ? 5 : 6);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 5 << 8) {
    fprintf(stderr, "the forked child ended with %d\n", status);
    failed = 1;
  }
  int threads = 0;
  FILE* self = fopen("/proc/self/status", "r");
  for (char line[128]; self != NULL && fgets(line, sizeof line, self) != NULL;) {
    sscanf(line, "Threads: %d", &threads);
  }
  printf("%d threads\n", threads);
  return failed;
}
