/* A program that gives its memory a tag, built with nothing but the header, in C and in C++. */
#include <parkade/parkade.h>

int main(void) {
  if (parkade_is_present()) return 2;
  if (parkade_tag_push("weights") != PARKADE_OK) return 1;
  return parkade_tag_pop() == PARKADE_OK ? 0 : 1;
}
