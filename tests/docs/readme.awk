# Makes a program of the first block of C++ in README.md: what stands in it is the body of main, but for its includes and
# names of namespaces. `step` counts its calls, and whatever is thrown ends the program with its text and 1.
/^```cpp$/ && !seen { inside = seen = 1; next }
/^```$/ && inside { inside = 0 }
!inside { next }
/^#include|^namespace/ { head = head $0 "\n"; next }
{ body = body "#line " FNR " \"README.md\"\n" $0 "\n" }
END {
  print "#include <cstdio>\n#include <exception>\n" head
  print "static int steps = 0;"
  print "static void step(const ps::Tensor&, const ps::Tensor&) { ++steps; }"
  print "int main() try {\n" body "  std::printf(\"%d steps\\n\", steps);\n} catch (const std::exception& error) {"
  print "  std::fprintf(stderr, \"%s\\n\", error.what());\n  return 1;\n}"
}
