/* Compiles only while parkade.h has the constants and signatures that programs were built with. */
#include <parkade/parkade.h>

_Static_assert(PARKADE_OK == 0 && PARKADE_E_INVAL == -1 && PARKADE_E_STATE == -2 &&
                   PARKADE_E_NOSPACE == -3,
               "errors");
_Static_assert(PARKADE_TAG_BYTES == 32 && PARKADE_TAG_DEPTH == 16, "limits of tags");
_Static_assert(PARKADE_BEFORE_PAUSE == 1 && PARKADE_AFTER_RESUME == 2, "when hooks run");
_Static_assert(PARKADE_HOOK_MOST_MS == 10000, "time of hooks");

int (*const kTagPush)(const char*) = parkade_tag_push;
int (*const kTagPop)(void) = parkade_tag_pop;
int (*const kHookAdd)(int, const char*, int (*)(void*), void*, unsigned) = parkade_hook_add;
int (*const kHookRemove)(int) = parkade_hook_remove;
int (*const kIsPresent)(void) = parkade_is_present;

int main(void) { return 0; }
