// parkade_version: what tells this library from any other. The driver's names do not: they hide
// from dlsym where the library is preloaded and the driver is not loaded.

extern "C" __attribute__((visibility("default"))) const char parkade_version[];
const char parkade_version[] = PARKADE_VERSION;
