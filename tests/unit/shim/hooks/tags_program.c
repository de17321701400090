/* A program in C that speaks parkade.h: with the shim its tags are kept, without it nothing
 * happens. */
#include <parkade/parkade.h>
#include <stdio.h>
#include <string.h>

#define REQUIRE(condition)                                          \
  do {                                                              \
    if (!(condition)) {                                             \
      fprintf(stderr, "line %d: %s fails\n", __LINE__, #condition); \
      return 1;                                                     \
    }                                                               \
  } while (0)

int main(int argc, char** argv) {
  const int present = argc > 1 && strcmp(argv[1], "present") == 0;
  REQUIRE(argc == 2 && (present || strcmp(argv[1], "absent") == 0));
  REQUIRE(parkade_is_present() == present);
  for (int round = 0; round < 2; ++round) {
    REQUIRE(parkade_tag_push("weights") == PARKADE_OK);
    REQUIRE(parkade_tag_pop() == PARKADE_OK);
    REQUIRE(parkade_tag_push("two words") == (present ? PARKADE_E_INVAL : PARKADE_OK));
    REQUIRE(parkade_tag_pop() == (present ? PARKADE_E_STATE : PARKADE_OK));
  }
  return 0;
}
