// A C++ program that does nothing: the bound for starting a process.
#include <iostream>
#include <string>

int main(int argc, char **argv) {
  if (argc > 1) std::cout << std::string(argv[1]) << '\n';
  return 0;
}
