# The program on README.md: its first block of C++.
/^```cpp$/ && !seen { inside = seen = 1; print "#line " FNR + 1 " \"README.md\""; next }
/^```$/ { inside = 0 }
inside
