/* A library that `parkade run` takes for Parkade's: it has the one name that is looked for. */
__attribute__((visibility("default"))) const char parkade_version[] = "0";
