# Defines parkade_grpc: gRPC with reflection and health, protobuf and abseil, for the daemon and the
# CLI alone. Shared libraries by default; with PARKADE_STATIC everything but libc and libm goes into
# the program, so that the bundle runs where nothing is installed.
find_package(Threads REQUIRED)
add_library(parkade_grpc INTERFACE)
target_link_libraries(parkade_grpc INTERFACE parkade_portable Threads::Threads)

# abseil is many small libraries; which of them a program needs is left to the linker.
if(PARKADE_STATIC)
  set(PARKADE_ABSL_GLOB libabsl_*.a)
else()
  set(PARKADE_ABSL_GLOB libabsl_*.so)
endif()
find_library(GRPCXX_LIBRARY grpc++ REQUIRED)
get_filename_component(GRPC_LIBRARY_DIR ${GRPCXX_LIBRARY} DIRECTORY)
file(GLOB PARKADE_ABSL_LIBRARIES ${GRPC_LIBRARY_DIR}/${PARKADE_ABSL_GLOB})
if(NOT PARKADE_ABSL_LIBRARIES)
  message(FATAL_ERROR "abseil is missing in ${GRPC_LIBRARY_DIR}: run scripts/setup")
endif()

if(PARKADE_STATIC)
  set(names grpc++_reflection grpc++ grpc gpr upb address_sorting protobuf cares re2 ssl crypto z)
  list(TRANSFORM names REPLACE "(.+)" "${GRPC_LIBRARY_DIR}/lib\\1.a" OUTPUT_VARIABLE archives)
  target_link_libraries(parkade_grpc INTERFACE
    -Wl,--start-group ${archives} ${PARKADE_ABSL_LIBRARIES} -Wl,--end-group)
else()
  target_link_libraries(parkade_grpc INTERFACE
    -Wl,--as-needed grpc++_reflection grpc++ grpc gpr protobuf ${PARKADE_ABSL_LIBRARIES})
endif()
