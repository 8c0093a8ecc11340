# Runs PROGRAM without arguments and compares what it prints with the lines below "// Prints:" in SOURCE.
file(READ ${SOURCE} source)
if(NOT source MATCHES "\n// Prints:\n((//     [^\n]*\n)+)")
  message(FATAL_ERROR "${SOURCE} does not say what it prints")
endif()
string(REGEX REPLACE "(^|\n)//     " "\\1" expected "${CMAKE_MATCH_1}")

execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result STREQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed (${result}):\n${errors}${output}")
endif()
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} printed:\n${output}\n${SOURCE} says:\n${expected}")
endif()
