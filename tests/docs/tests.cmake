# The code in docs/, taken out of the pages and compiled, and run where the page says what comes out.
set(docs_extract ${CMAKE_CURRENT_SOURCE_DIR}/docs/extract.awk)

# `penstock_docs(extending SOURCES a.cpp b.cpp FILTER PATTERN)`: a page, and files of the tree that are compiled again
# against the files that the page changes. FILTER: the tests of the page's own code; the others run elsewhere.
function(penstock_docs page)
  cmake_parse_arguments(ARG "" "FILTER" "SOURCES" ${ARGN})
  set(markdown ${PROJECT_SOURCE_DIR}/docs/${page}.md)
  set(out ${PROJECT_BINARY_DIR}/docs/${page})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${markdown} ${docs_extract})
  set(extract awk -v page=${page} -v root=${PROJECT_SOURCE_DIR} -v out=${out} -f ${docs_extract} ${markdown})
  execute_process(COMMAND awk -v list=1 -v page=${page} -f ${docs_extract} ${markdown} OUTPUT_VARIABLE listing
    COMMAND_ERROR_IS_FATAL ANY)

  set(files)
  set(depends ${markdown} ${docs_extract})
  set(tree_sources ${ARG_SOURCES})
  list(TRANSFORM tree_sources PREPEND ${PROJECT_SOURCE_DIR}/)
  string(REGEX MATCHALL "[^\n]+" lines "${listing}")
  foreach(line ${lines})
    separate_arguments(line)
    list(GET line 0 kind)
    list(GET line 1 path)
    list(APPEND files ${out}/${path})
    cmake_path(GET path PARENT_PATH folder)
    file(MAKE_DIRECTORY ${out}/${folder})
    list(LENGTH line words)
    if(words EQUAL 3)
      list(GET line 2 original)
      list(APPEND depends ${PROJECT_SOURCE_DIR}/${original})
    endif()

    if(kind STREQUAL program)
      cmake_path(GET path STEM name)
      add_executable(docs_${name} ${out}/${path})
      target_link_libraries(docs_${name} PRIVATE penstock::penstock)
      add_test(NAME docs/${page}/${name} COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:docs_${name}>
        -DSOURCE=${out}/${path} -P ${PROJECT_SOURCE_DIR}/examples/check_output.cmake)
      set_tests_properties(docs/${page}/${name} PROPERTIES TIMEOUT ${test_timeout})
    elseif(kind STREQUAL fragments)
      add_library(docs_${page}_fragments OBJECT ${out}/${path})
      target_include_directories(docs_${page}_fragments PRIVATE ${PROJECT_SOURCE_DIR})
      target_link_libraries(docs_${page}_fragments PRIVATE penstock::penstock)
    elseif(kind STREQUAL vectors)
      list(APPEND tree_sources ${out}/${path})
    elseif(path MATCHES "\\.cpp$")
      list(APPEND tree_sources ${out}/${path})
    endif()
  endforeach()
  add_custom_command(OUTPUT ${files} COMMAND ${extract} DEPENDS ${depends} VERBATIM COMMENT "Taking code from ${page}.md")
  add_custom_target(docs_${page} ALL DEPENDS ${files})

  if(tree_sources)
    add_executable(docs_${page}_test ${tree_sources})
    target_include_directories(docs_${page}_test PRIVATE ${out} ${out}/include ${PROJECT_SOURCE_DIR})
    target_link_libraries(docs_${page}_test PRIVATE penstock_private GTest::gtest GTest::gmock GTest::gtest_main test_places
      test_numbers $<TARGET_NAME_IF_EXISTS:penstock_pipelines> penstock JPEG::JPEG TBB::tbb)
    target_compile_options(docs_${page}_test PRIVATE ${test_compile_options})
    target_precompile_headers(docs_${page}_test REUSE_FROM test_headers)
    set_target_properties(docs_${page}_test PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    penstock_discover(docs_${page}_test docs/${page} "${ARG_FILTER}")
  endif()
endfunction()

penstock_docs(guide)
penstock_docs(stages)
penstock_docs(staging)
penstock_docs(training)
penstock_docs(metrics)
penstock_docs(from-tensorflow)
penstock_docs(extending SOURCES pipeline/image/fused.cpp pipeline/image/pipe.cpp
  tests/conformance/conformance_test.cpp tests/conformance/sources_test.cpp tests/conformance/source_runs_test.cpp
  FILTER "*repeateach*:*linspace*:CenterSquare.*")

add_test(NAME docs/c COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/c_test.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(docs/c PROPERTIES TIMEOUT ${test_timeout})

add_test(NAME docs/extending/touched COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/touched_test.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(docs/extending/touched PROPERTIES TIMEOUT ${test_timeout})

# The README's program is run as it stands there.
set(readme_program ${PROJECT_BINARY_DIR}/docs/readme.cpp)
add_custom_command(OUTPUT ${readme_program}
  COMMAND awk -f ${CMAKE_CURRENT_SOURCE_DIR}/docs/readme.awk ${PROJECT_SOURCE_DIR}/README.md > ${readme_program}
  DEPENDS ${PROJECT_SOURCE_DIR}/README.md ${CMAKE_CURRENT_SOURCE_DIR}/docs/readme.awk VERBATIM)
add_executable(docs_readme ${readme_program})
target_link_libraries(docs_readme PRIVATE penstock::penstock)
if(TARGET penstock_tool)
  add_test(NAME docs/readme COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/readme_test.sh $<TARGET_FILE:docs_readme>
    $<TARGET_FILE:penstock_tool>)
  set_tests_properties(docs/readme PROPERTIES TIMEOUT ${test_timeout})
endif()

# So is the example that others start from.
add_executable(docs_embed ${PROJECT_SOURCE_DIR}/examples/embed/main.cpp)
target_link_libraries(docs_embed PRIVATE penstock::penstock)
if(TARGET penstock_tool)
  add_test(NAME docs/embed COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/embed_test.sh $<TARGET_FILE:docs_embed>
    $<TARGET_FILE:penstock_tool>)
  set_tests_properties(docs/embed PROPERTIES TIMEOUT ${test_timeout})
endif()

# The README's chart is what a file of results says.
find_program(PENSTOCK_PYTHON python3)
if(PENSTOCK_PYTHON)
  add_test(NAME docs/rates COMMAND ${PENSTOCK_PYTHON} ${PROJECT_SOURCE_DIR}/bench/chart.py --check)
  set_tests_properties(docs/rates PROPERTIES TIMEOUT 30)
endif()
