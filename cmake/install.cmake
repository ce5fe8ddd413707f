# What `cmake --install` lays down: headers, both libraries, the tool, and two ways to find them:
# find_package(splitq) with the target splitq::splitq, and pkg-config's splitq.pc.
include(CMakePackageConfigHelpers)

set(SPLITQ_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/splitq)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/splitq DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# One export set a library: a consumer loads the one that it links.
set_target_properties(splitq splitq_shared PROPERTIES EXPORT_NAME splitq)
install(TARGETS splitq EXPORT splitq-static)
install(TARGETS splitq_shared EXPORT splitq-shared)
install(EXPORT splitq-static NAMESPACE splitq:: DESTINATION ${SPLITQ_CMAKE_DIR})
install(EXPORT splitq-shared NAMESPACE splitq:: DESTINATION ${SPLITQ_CMAKE_DIR})
if(TARGET splitq_cli)
  install(TARGETS splitq_cli)
endif()

configure_package_config_file(cmake/splitq-config.cmake.in ${PROJECT_BINARY_DIR}/splitq-config.cmake
                              INSTALL_DESTINATION ${SPLITQ_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/splitq-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/splitq-config.cmake ${PROJECT_BINARY_DIR}/splitq-config-version.cmake
        DESTINATION ${SPLITQ_CMAKE_DIR})

# The prefix in splitq.pc is found from where the file lies, so that an installed tree can be moved.
file(RELATIVE_PATH SPLITQ_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/splitq.pc.in ${PROJECT_BINARY_DIR}/splitq.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/splitq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
