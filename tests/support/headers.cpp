// Compiles the headers that most tests include; see tests/CMakeLists.txt.
