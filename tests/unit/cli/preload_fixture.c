/* A library that `parkade run` takes for Parkade's: it has the one name that is looked for. */
__attribute__((visibility("default"))) int cuMemAlloc_v2(void) { return 0; }
