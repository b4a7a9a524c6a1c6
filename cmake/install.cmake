# The library as a CMake package: find_package(rouse), target rouse::rouse.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(rouse_library INTERFACE)
set_target_properties(rouse_library PROPERTIES EXPORT_NAME rouse)
target_link_libraries(rouse_library INTERFACE rouse_models rouse_tools)
target_compile_features(rouse_library INTERFACE cxx_std_23)

install(TARGETS rouse_library rouse_base rouse_net rouse_domain rouse_store rouse_agent
                rouse_models rouse_tools EXPORT rouse-targets)
install(TARGETS rouse)
add_custom_target(install_parts)
add_dependencies(install_parts rouse rouse_models rouse_tools)
install(DIRECTORY include/rouse DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# What the public headers include; not for direct use.
foreach(room base domain)
    install(DIRECTORY src/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rouse/internal
            FILES_MATCHING PATTERN "*.h")
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rouse)
install(EXPORT rouse-targets NAMESPACE rouse:: DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rouse-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/rouse-config.cmake ${CMAKE_BINARY_DIR}/rouse-config-version.cmake
        DESTINATION ${package_dir})
