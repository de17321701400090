// What the fake libcuda of these tests tells beside the driver API.
#pragma once

extern "C" {

// Calls that have arrived at the fake's function `name`.
int fake_calls(const char* name);
// What cuInit got when it looked itself up with dlsym, as libcuda does on WSL2.
void* fake_own_lookup();
// The fake's cuInit.
void* fake_own_init();
}
