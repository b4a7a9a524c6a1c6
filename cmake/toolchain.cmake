# Language level, warnings, sanitizers and the compiler cache: the same for every target.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_program(ROUSE_CCACHE ccache)
if(ROUSE_CCACHE)
    # Two clones of the tree share what they compile.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
        CCACHE_NOHASHDIR=1 "${ROUSE_CCACHE}")
endif()
find_program(ROUSE_LLD NAMES ld.lld-19 ld.lld)
if(ROUSE_LLD)
    add_link_options("-fuse-ld=lld" "-B${CMAKE_BINARY_DIR}/linker")
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/linker")
    file(CREATE_LINK "${ROUSE_LLD}" "${CMAKE_BINARY_DIR}/linker/ld.lld" SYMBOLIC)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                    -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-Wno-deprecated-declarations)  # libstdc++ 12's own, in std::stable_sort
endif()
add_compile_definitions(_GLIBCXX_ASSERTIONS)
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_SANITIZED "-Og -g1 -fno-omit-frame-pointer")  # -O1 takes three times as long

set(ROUSE_SANITIZE "" CACHE STRING "Sanitizers for the whole build, as for -fsanitize=")
if(NOT ROUSE_SANITIZE)
    add_compile_options(-Werror)  # instrumented code draws warnings about paths that cannot happen
else()
    add_compile_options("-fsanitize=${ROUSE_SANITIZE}" -fno-sanitize-recover=all)
    add_link_options("-fsanitize=${ROUSE_SANITIZE}")
    if(ROUSE_SANITIZE MATCHES "thread")
        add_compile_options(-Wno-tsan)
    else()
        add_compile_definitions(_GLIBCXX_SANITIZE_VECTOR)
    endif()
endif()
