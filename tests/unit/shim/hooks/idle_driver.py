#!/usr/bin/env python3
"""Writes the source of a libcuda.so.1 that exports every name, each of which does nothing but count its
calls. Its cuGetProcAddress finds them by version and flags.

  idle_driver.py SHIM_HOOKS_DIR CC CUDA_INCLUDE OUT
"""
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import generate  # noqa: E402

RESOLVER = """
struct form { const char *base; int since, per_thread; int (*function)(void); };
static const struct form forms[] = {
%s
};
static int find(const char *symbol, void **out, int version, unsigned long long flags) {
  *out = 0;
  for (int own = 0; own <= (flags == 2); ++own)
    for (unsigned i = 0; i < sizeof forms / sizeof *forms; ++i)
      if (strcmp(forms[i].base, symbol) == 0 && forms[i].since <= version && forms[i].per_thread == own)
        *out = (void *)forms[i].function;  /* oldest first */
  return 0;
}
int cuGetProcAddress(const char *symbol, void **out, int version, unsigned long long flags) {
  return find(symbol, out, version, flags);
}
int cuGetProcAddress_v2(const char *symbol, void **out, int version, unsigned long long flags, int *status) {
  if (status != 0) *status = 0;
  return find(symbol, out, version, flags);
}
"""

prototypes = generate.read_prototypes(sys.argv[2], sys.argv[3])
names = sorted(prototypes)
resolvers = ("cuGetProcAddress", "cuGetProcAddress_v2")
lines = ["#include <string.h>", f"static int calls[{len(names)}];"]
lines.append("int idle_calls(int entry) { return __atomic_load_n(&calls[entry], __ATOMIC_SEQ_CST); }")
for number, name in enumerate(names):
    if name in resolvers:
        lines.append(f"int {name}();")
    else:
        lines.append(f"int {name}(void) {{ return __atomic_fetch_add(&calls[{number}], 1, __ATOMIC_SEQ_CST), 0; }}")
lines += [f"int {name}(void) {{ return 0; }}" for name in ("cuNotYetInvented", "cuGraphicsGLRegisterBuffer")]
rows = [f'  {{"{v.base}", {v.since}, {int(v.per_thread)}, (int (*)(void)){v.name}}},'
        for v in generate.read_versions(sys.argv[2], sys.argv[3], prototypes)]
pathlib.Path(sys.argv[4]).write_text("\n".join(lines) + RESOLVER.replace("%s", "\n".join(rows)))
