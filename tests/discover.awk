# From GoogleTest's list of a program's tests, in JSON, to commands of ctest. See discover.cmake. A test with parameters is
# one test of ctest, which starts the program once for all of them; but not if `pattern` names the parameters to run.
function text_of(line) {  # "name": "Suite\/0",
  sub(/^[^:]*: "/, "", line)
  sub(/",?$/, "", line)
  gsub(/\\\//, "/", line)
  return line
}
/^      "name": / { suite = text_of($0) }
/^          "name": / { test = text_of($0) }
/^          "file": / {
  file = name != "" ? name : text_of($0)
  if (name == "") {
    if (!sub(/^.*tests\//, "", file) || !sub(/_test\.cpp$/, "", file)) {
      print "discover: " suite "." test " is in " file ", which is no test's file" > "/dev/stderr"
      exit 1
    }
  }
  chosen = suite "." test
  several = pattern !~ /^[^-]/ && sub(/\/.*/, "", test)
  if (several) chosen = suite "." test "/*" pattern
  full = "[=[" file "/" suite "." test "]=]"
  if (seen[full]++) next
  printf "add_test(%s [=[%s]=] [=[--gtest_filter=%s]=])\n", full, program, chosen
  printf "set_tests_properties(%s PROPERTIES TIMEOUT %s ENVIRONMENT [=[PENSTOCK_INDEX_DIR=%s]=])\n", full, timeout, indices
  # Of several tests, others may fail.
  if (!several) printf "set_tests_properties(%s PROPERTIES SKIP_REGULAR_EXPRESSION [=[\\[  SKIPPED \\]]=])\n", full
}
