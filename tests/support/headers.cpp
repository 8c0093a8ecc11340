// Compiles what tests include most, see tests/CMakeLists.txt.
