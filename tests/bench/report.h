// The rows of a benchmark: printed as a table while they come, and written as JSON at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string against;  // what `bound` is; "": nothing to compare with
  double bound = 0;     // in the same unit
  // What must not be exceeded: the ratio to the bound if there is one, else the value.
  std::optional<double> target;
  double spin_before_ns = 0;  // spinning round trip of two threads around the row
  double spin_after_ns = 0;
};

class Report {
 public:
  void heading(const std::string &text);
  void add(Row row);
  // False when the file could not be written.
  bool write_json(const std::string &path, const std::string &machine, double foreign_cpu_percent) const;
  size_t missed() const;

 private:
  std::vector<Row> rows_;
};

}  // namespace bench
