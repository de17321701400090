# The Debian packages: one for each component, versions from project().
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME parkade)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(PARKADE_MAINTAINER "The Parkade maintainers <maintainers@parkade.invalid>" CACHE STRING "Who answers for the packages")
set(CPACK_PACKAGE_CONTACT ${PARKADE_MAINTAINER})
set(CPACK_PACKAGE_VENDOR Parkade)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL cli daemon library dev python)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR I_ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(this_version "(= ${PROJECT_VERSION}-1)")

# A changelog of one entry, which points to the project's; its date is that of the sources where
# SOURCE_DATE_EPOCH says it.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
function(parkade_package component name section architecture summary description)
  string(TOUPPER ${component} C)
  set(CPACK_DEBIAN_${C}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${C}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  if(architecture STREQUAL all)
    set(CPACK_DEBIAN_${C}_PACKAGE_ARCHITECTURE all PARENT_SCOPE)
  else()
    set(CPACK_DEBIAN_${C}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  endif()
  set(scripts ${CMAKE_CURRENT_SOURCE_DIR}/deb/${name})
  file(GLOB control ${scripts}/*)
  set(CPACK_DEBIAN_${C}_PACKAGE_CONTROL_EXTRA "${control}" PARENT_SCOPE)
  set(log ${made}/changelog/${name}/changelog.Debian)
  file(WRITE ${log} "${name} (${PROJECT_VERSION}-1) bookworm; urgency=medium\n\n"
    "  * Version ${PROJECT_VERSION}; CHANGELOG.md of the project has what is new.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  execute_process(COMMAND ${GZIP} -9nf ${log} COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${log}.gz deb/copyright DESTINATION share/doc/${name} COMPONENT ${component})
endfunction()

parkade_package(cli parkade admin amd64 "command line that pauses and resumes GPU processes"
  "parkade runs unmodified CUDA programs so that the bytes which they hold in GPU\nmemory can move to host memory or disk and back while they live. It talks to\nthe daemon of the node, in the package parkaded.")
set(CPACK_DEBIAN_CLI_PACKAGE_DEPENDS "libparkade ${this_version}")
set(CPACK_DEBIAN_CLI_PACKAGE_RECOMMENDS parkaded)

parkade_package(daemon parkaded admin amd64 "node daemon that parks the GPU memory of processes"
  "One parkaded runs on each node. It pauses and resumes processes that have\nlibparkade.so preloaded, for callers of its gRPC API at /run/parkade, and keeps\ntheir backups in host memory or on disk. The service is not enabled by itself.")
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_DAEMON_PACKAGE_SUGGESTS "parkade ${this_version}")

parkade_package(library libparkade libs amd64 "preloaded library that makes CUDA allocations pausable"
  "libparkade.so stands between a CUDA program and the driver, keeps account of\nits allocations, and moves them out of GPU memory and back when the daemon\nasks. It is preloaded by `parkade run` and links to libc alone.")

parkade_package(dev libparkade-dev libdevel all "header and API definition of Parkade"
  "parkade.h, with which programs name their GPU memory and run hooks around\npauses, and the .proto files of the daemon's gRPC API, for pkg-config and\nCMake.")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libparkade, libgrpc++-dev, libprotobuf-dev, protobuf-compiler-grpc, pkg-config, cmake")

parkade_package(python python3-parkade python all "Python client of the Parkade daemon"
  "The package parkade: synchronous and asyncio clients of the daemon's API,\nlabels and launch helpers for orchestrators, tags and hooks for programs.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), python3-grpcio, python3-protobuf")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "libparkade ${this_version}")

include(CPack)
