#include "report.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace bench {

namespace {

double ratio_of(const Row &row) { return row.bound > 0 ? row.value / row.bound : 0; }
bool is_met(const Row &row) { return !row.target || (row.bound > 0 ? ratio_of(row) : row.value) <= *row.target; }

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
  return text;
}

// The two CPUs of a virtual machine are near each other or far apart, and change that every few minutes; rows are comparable
// only when it was the same.
const char *placement(const Row &row) {
  const auto is_near = [](double ns) { return ns < 150; };
  if (row.spin_before_ns <= 0) return "one CPU";
  if (is_near(row.spin_before_ns) != is_near(row.spin_after_ns)) return "changed";
  return is_near(row.spin_before_ns) ? "near" : "far";
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

}  // namespace

void Report::heading(const std::string &text) {
  std::printf("\n%-58s %10s %-8s %10s %7s %7s     %s\n", text.c_str(), "value", "unit", "against", "ratio", "target",
              "CPUs");
  std::fflush(stdout);
}

void Report::add(Row row) {
  std::string against = "", ratio = "", target = "";
  if (row.bound > 0) {
    against = number(row.bound);
    ratio = number(ratio_of(row));
  }
  if (row.target) target = number(*row.target);
  std::printf("  %-56s %10s %-8s %10s %7s %7s %-3s %s%s%s\n", row.name.c_str(), number(row.value).c_str(), row.unit.c_str(),
              against.c_str(), ratio.c_str(), target.c_str(), row.target ? (is_met(row) ? "ok" : "NO") : "", placement(row),
              row.against.empty() ? "" : ", against ", row.against.c_str());
  std::fflush(stdout);
  rows_.push_back(std::move(row));
}

size_t Report::missed() const {
  size_t count = 0;
  for (const Row &row : rows_) count += !is_met(row);
  return count;
}

bool Report::write_json(const std::string &path, const std::string &machine, double foreign_cpu_percent) const {
  std::ofstream file(path);
  file << "{\n  \"machine\": " << quoted(machine) << ",\n  \"foreign_cpu_percent\": " << number(foreign_cpu_percent)
       << ",\n  \"rows\": [";
  const char *separator = "\n";
  for (const Row &row : rows_) {
    file << separator << "    {\"name\": " << quoted(row.name) << ", \"value\": " << row.value
         << ", \"unit\": " << quoted(row.unit);
    if (row.bound > 0) {
      file << ", \"against\": " << quoted(row.against) << ", \"bound\": " << row.bound << ", \"ratio\": " << ratio_of(row);
    } else {
      file << ", \"against\": null, \"bound\": null, \"ratio\": null";
    }
    if (row.target) {
      file << ", \"target\": " << *row.target << ", \"met\": " << (is_met(row) ? "true" : "false");
    } else {
      file << ", \"target\": null, \"met\": null";
    }
    file << ", \"placement\": " << quoted(placement(row)) << ", \"spin_before_ns\": " << row.spin_before_ns
         << ", \"spin_after_ns\": " << row.spin_after_ns << "}";
    separator = ",\n";
  }
  file << "\n  ]\n}\n";
  file.close();
  return !file.fail();
}

}  // namespace bench
