# A room is a folder under src/: one library, and one test binary from its *_test.cc files.

option(ROUSE_UNITY "Compile the sources of a room together: quicker from scratch" OFF)

function(rouse_compile_together target files)
    if(ROUSE_UNITY)
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
        # Every source is an included file then, and its own types look as if others saw them.
        target_compile_options(${target} PRIVATE
            $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    endif()
endfunction()

function(rouse_room room)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${room}/*.cc")
    list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
    add_library(rouse_${room} STATIC ${sources})
    target_include_directories(rouse_${room} PUBLIC
        "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>" "$<INSTALL_INTERFACE:include/rouse/internal>")
    target_link_libraries(rouse_${room} PUBLIC ${ARG_LINK})
    rouse_compile_together(rouse_${room} 8)
endfunction()

# Fakes shared by the tests of all rooms.
function(rouse_testing)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/testing/*.cc")
    list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
    add_library(rouse_testing STATIC ${sources})
    target_include_directories(rouse_testing PUBLIC "${CMAKE_SOURCE_DIR}")
    target_link_libraries(rouse_testing PUBLIC ${ARG_LINK})
endfunction()

function(rouse_test name)
    cmake_parse_arguments(ARG "" "" "LABEL;SOURCES;LINK" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE rouse_testing GTest::gtest_main rapidcheck
                                          rapidcheck_gtest ${ARG_LINK})
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT 900)
endfunction()

# ALONE: tests whose helpers have the names of others in the room.
function(rouse_room_tests room)
    cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${room}/*_test.cc")
    rouse_test(${room}_test LABEL unit SOURCES ${sources} LINK rouse_${room})
    rouse_compile_together(${room}_test 6)
    foreach(name ${ARG_ALONE})
        set_source_files_properties("${CMAKE_SOURCE_DIR}/src/${room}/${name}_test.cc" PROPERTIES
            SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
endfunction()
