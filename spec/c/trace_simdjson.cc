#include "trace_simdjson.h"

#include <cstring>
#include <deque>
#include <simdjson.h>
#include <string>

using namespace simdjson;

namespace {

struct keeper {
  std::deque<std::string> texts;
  oracle_value value(dom::element e) {
    oracle_value v = {ORACLE_NONE, 0, 0, nullptr, 0};
    switch (e.type()) {
    case dom::element_type::INT64:
      v.type = ORACLE_INTEGER;
      v.integer = int64_t(e);
      v.number = double(v.integer);
      break;
    case dom::element_type::UINT64:
      v.type = ORACLE_UNSIGNED;
      v.number = double(uint64_t(e));
      break;
    case dom::element_type::DOUBLE:
      v.type = ORACLE_FLOAT;
      v.number = double(e);
      break;
    case dom::element_type::STRING: {
      std::string_view s = e;
      v.type = ORACLE_TEXT;
      v.text = s.data();
      v.length = s.size();
      break;
    }
    case dom::element_type::BOOL: v.type = bool(e) ? ORACLE_TRUE : ORACLE_FALSE; break;
    case dom::element_type::NULL_VALUE: v.type = ORACLE_NULL; break;
    default:
      texts.push_back(minify(e));
      v.type = ORACLE_TREE;
      v.text = texts.back().data();
      v.length = texts.back().size();
    }
    return v;
  }
};

bool pad_of(const char *bytes, size_t length, padded_string &out) {
  out = padded_string(bytes, length);
  return true;
}

} // namespace

extern "C" size_t oracle_minify(const char *bytes, size_t length, char *out) {
  dom::parser parser;
  padded_string text;
  pad_of(bytes, length, text);
  dom::element e;
  if (parser.parse(text).get(e))
    return 0;
  std::string s = minify(e);
  std::memcpy(out, s.data(), s.size());
  return s.size();
}

extern "C" int oracle_events(const char *bytes, size_t length, const char *const *args,
                             size_t arg_count,
                             void (*event)(void *, const oracle_event *),
                             void *context) {
  dom::parser parser;
  padded_string text;
  pad_of(bytes, length, text);
  dom::element root;
  if (parser.parse(text).get(root))
    return 1;
  dom::array list;
  if (root.is_object()) {
    int found = 0;
    for (dom::key_value_pair f : dom::object(root))
      if (f.key == "traceEvents" && f.value.is_array()) {
        list = f.value;
        found++;
      }
    if (found != 1)
      return 2;
  } else if (root.is_array()) {
    list = root;
  } else {
    return 2;
  }
  for (dom::element e : list)
    if (!e.is_object())
      return 2;
  for (dom::element e : list) {
    keeper keep;
    oracle_event out;
    std::memset(&out, 0, sizeof out);
    for (dom::key_value_pair f : dom::object(e)) {
      oracle_value v = keep.value(f.value);
      if (f.key == "ph")
        out.ph = v;
      else if (f.key == "name")
        out.name = v;
      else if (f.key == "cat")
        out.category = v;
      else if (f.key == "pid")
        out.pid = v;
      else if (f.key == "tid")
        out.tid = v;
      else if (f.key == "ts")
        out.ts = v;
      else if (f.key == "dur")
        out.dur = v;
      else if (f.key == "args" && f.value.is_object())
        for (dom::key_value_pair a : dom::object(f.value)) {
          oracle_value w = keep.value(a.value);
          if (a.key == "stream")
            out.stream = w;
          if (a.key == "device")
            out.device = w;
          if (a.key == "correlation")
            out.correlation = w;
          for (size_t i = 0; i < arg_count && i < ORACLE_ARGS; i++)
            if (a.key == args[i])
              out.args[i] = w;
        }
    }
    event(context, &out);
  }
  return 0;
}
