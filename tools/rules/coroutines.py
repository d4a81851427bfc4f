# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

"""Finds uses of co_await that g++ 12 compiles wrongly, mostly without a warning, and two that are always wrong.

It works on text, not on types, so it also forbids some code that is right: it cannot tell an aggregate from a class
with constructors. CONTRIBUTING.md shows how to write each of them well."""

import bisect
import functools
import re

import sources

RULES = {
    "condition": "co_await in a condition: await into a local first",
    "braces": "a braced argument or temporary in a statement that awaits: name it, and move it in",
    "initialiser": "co_await inside a braced initialiser: await into a local first",
    "ternary": "a ternary in a statement that awaits: use if and else",
    "capture": "a lambda that captures by value, in a statement that awaits: name the lambda and move it in, "
    "or pass the state as its parameters",
    "several": "several co_await in one statement: one each, into named locals",
    "lock": "a mutex is locked across co_await",
}

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {close: open_ for open_, close in OPENING.items()}

class Source:
    """The text of a file and its tree of brackets."""

    def __init__(self, text):
        self.text = sources.without_directives(sources.without_noise(text))
        self.match = {}  # each bracket's position -> its partner's
        self.parent = {}  # an opening bracket's position -> the one around it, or None
        self.opens = []  # positions of opening brackets, in order
        stack = []
        for i, c in enumerate(self.text):
            if c in OPENING:
                self.parent[i] = stack[-1] if stack else None
                self.opens.append(i)
                stack.append(i)
            elif c in CLOSING and stack and self.text[stack[-1]] == CLOSING[c]:
                self.match[i] = stack[-1]
                self.match[stack.pop()] = i
        self.is_block = {i: self._opens_block(i) for i in self.opens if self.text[i] == "{"}
        self.lambda_bodies = {self.lambda_body(i) for i in self.opens if self.text[i] == "["}

    def end(self, opening):
        return self.match.get(opening, len(self.text))

    def around(self, position):
        """The innermost bracket around a position, or None."""
        at = bisect.bisect_left(self.opens, position) - 1
        while at >= 0 and self.end(self.opens[at]) < position:
            at -= 1
        return self.opens[at] if at >= 0 else None

    def brackets_in_statement(self, position):
        """The brackets around a position, from the innermost one, up to the block that contains the statement."""
        bracket = self.around(position)
        while bracket is not None and not self.is_block.get(bracket, False):
            yield bracket
            bracket = self.parent[bracket]

    def before(self, position):
        """The text before a position, back to the last thing that ends a statement."""
        start = max(self.text.rfind(c, 0, position) for c in ";{}") + 1
        return self.text[start:position].rstrip()

    def starts_lambda(self, bracket):
        if self.text[bracket] != "[" or self.text[bracket + 1 : bracket + 2] == "[":
            return False
        before = self.before(bracket)
        if before.endswith("[") or re.search(r"\bauto\s*&{0,2}$", before):
            return False  # an attribute; a structured binding
        word = re.search(r"[\w\])]+$", before)
        if word and word[0] not in ("return", "co_return", "co_yield", "co_await", "else", "case"):
            return False  # a subscript
        after = self.text[self.end(bracket) + 1 :].lstrip()
        return bool(re.match(r"[({<]|->|mutable\b|noexcept\b|constexpr\b", after))

    def _opens_block(self, brace):
        """True if the brace begins statements or declarations, and not an initialiser."""
        before = self.before(brace)
        if not before or before[-1] in "):\"":
            return True
        if before[-1] == "]":
            return self.starts_lambda(self.match.get(len(self.text[:brace].rstrip()) - 1, 0))
        if re.search(r"\b(else|try|do|const|noexcept|mutable|override|final)$|(\)|\bconst)\s*&{1,2}$", before):
            return True
        if re.search(r"->\s*[\w:<>,\s&*]+$", before):
            return True  # a trailing return type
        return bool(re.search(r"\b(class|struct|union|enum|namespace|concept)\b[^()=]*$", before))

    def statement_around(self, position):
        """The statement at a position as (start, end), without the header of an if or a loop before it."""
        block = self.around(position)
        while block is not None and not self.is_block.get(block, False):
            block = self.parent[block]
        start = 0 if block is None else block + 1
        end = self.end(block) if block is not None else len(self.text)
        i = start
        while i < end:
            if self.text[i] in OPENING:
                closing = self.end(i)
                is_statement = self.is_block.get(i, False) and i not in self.lambda_bodies
                if is_statement and closing < position:
                    start = closing + 1
                elif is_statement:
                    end = i
                    break
                i = closing
            elif self.text[i] == ";":
                if i >= position:
                    end = i
                    break
                start = i + 1
            i += 1
        while header := re.match(r"\s*(?:else\b\s*)?(?:if|for|while|switch)\b[^(]*\(", self.text[start:end]):
            closing = self.end(start + header.end() - 1)
            if closing > position:
                end = closing
                break
            start = closing + 1
        return start, end

    def lambda_body(self, bracket):
        """The position of the { of the lambda that begins at a bracket, or None."""
        if not self.starts_lambda(bracket):
            return None
        i = self.end(bracket) + 1
        while i < len(self.text) and self.text[i] not in "{;}":
            i = self.end(i) + 1 if self.text[i] in "([" else i + 1
        return i if i < len(self.text) and self.text[i] == "{" else None

    def statement_text(self, start, end):
        """A statement without the bodies of its lambdas, which are statements of their own."""
        text = list(self.text[start:end])
        for bracket in self.opens[bisect.bisect_left(self.opens, start) : bisect.bisect_left(self.opens, end)]:
            body = self.lambda_body(bracket)
            if body is not None:
                for i in range(body, min(self.end(body) + 1, end)):
                    text[i - start] = " "
        return "".join(text)


def captures_by_value(captures):
    innermost = re.compile(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}")
    while innermost.search(captures):
        captures = innermost.sub("", captures)
    items = [item.strip() for item in captures.split(",")]
    return any(item and not item.startswith("&") and item != "this" for item in items)


def in_condition(source, position):
    for bracket in source.brackets_in_statement(position):
        keyword = re.search(r"\b(if|while|switch|for)\b(?:\s*constexpr)?$", source.text[:bracket].rstrip())
        if source.text[bracket] == "(" and keyword:
            inside = source.text[bracket + 1 : source.end(bracket)]
            if keyword[1] == "for":
                # The first part may await: an init-statement, or the range.
                return ";" in inside and source.text.find(";", bracket) < position
            return source.text.rfind(";", position, source.end(bracket)) < 0
    return False


def in_initialiser(source, position):
    return any(source.text[bracket] == "{" for bracket in source.brackets_in_statement(position))


def check_awaits(source, report):
    statements = {}
    for match in re.finditer(r"\bco_await\b", source.text):
        position = match.start()
        if in_condition(source, position):
            report(position, "condition")
        if in_initialiser(source, position):
            report(position, "initialiser")
        statements.setdefault(source.statement_around(position), []).append(position)

    for (start, end), positions in statements.items():
        text = source.statement_text(start, end)
        first = positions[0]
        if len(positions) > 1:
            report(first, "several")
        if "?" in text:
            report(first, "ternary")
        if re.search(r"[(,]\s*[\w:<>]*\s*\{|\bco_await\s+[\w:<>]+\s*\{", text):
            report(first, "braces")
        for i, c in enumerate(text):
            if c == "[" and source.starts_lambda(start + i):
                if captures_by_value(source.text[start + i + 1 : source.end(start + i)]):
                    report(first, "capture")


def check_locks(source, report):
    declaration = r"\b(?:std::)?(?:lock_guard|scoped_lock|unique_lock|shared_lock)\b(?:\s*<[^;(){}]*>)?\s+\w+\s*[({]"
    for match in re.finditer(declaration, source.text):
        block = source.around(match.start())
        end = source.end(block) if block is not None else len(source.text)
        rest = source.statement_text(match.end(), end)
        await_ = re.search(r"\bco_await\b", rest)
        if await_ and not re.search(r"\.unlock\s*\(", rest[: await_.start()]):
            report(match.end() + await_.start(), "lock")


@functools.cache
def problems_of(text):
    """(line, rule) for each problem, in order."""
    source = Source(text)
    found = set()

    def report(position, rule):
        found.add((sources.line_of(source.text, position), rule))

    check_awaits(source, report)
    check_locks(source, report)
    return sorted(found)


def problems(files):
    for path, text in files.items():
        if path.endswith((".cpp", ".hpp")):
            for line, rule in problems_of(text):
                yield f"{path}:{line}: {RULES[rule]} ({rule})"


BAD = {
    "condition": [
        "if (!co_await f()) return;",
        "if (auto x = g(); co_await f(x)) return;",
        "while (co_await f()) ++n;",
        "do { ++n; } while (co_await f());",
        "switch (co_await f()) { default: break; }",
        "for (int i = 0; co_await f(i); ++i) g();",
        "if (h() && (co_await f()).ok()) { g(); }",
    ],
    "braces": [
        'co_await f({.name = "x", .p = sp});',
        "co_await f(Options{a, b});",
        "auto r = co_await f(1, ns::Options{a});",
        'co_await f({"a", "b"});',
        "co_await boost::asio::async_initiate<T, S>(Init{p}, token);",
        "co_await Operation{p};",
        "co_await f(std::vector<int>{1, 2});",
    ],
    "initialiser": [
        "auto p = Pair{co_await a(), 1};",
        "Pair p{co_await a(), 1};",
        "std::array<T, 1> p = {co_await a()};",
        "auto* p = new Agg{co_await a()};",
        "co_return Agg{.x = co_await a()};",
        "co_return {co_await a()};",
        "use(Agg{f(co_await a())});",
    ],
    "ternary": [
        "co_await (c ? f() : g());",
        'auto s = c ? T("q") : co_await g();',
        "co_await f(c ? a : b);",
    ],
    "capture": [
        "co_await [x]() -> awaitable<void> { co_return; }();",
        "co_await co_spawn(ex, [p = sp]() -> awaitable<void> { co_return; }, use_awaitable);",
        "co_await co_spawn(ex, [=] { return f(); }, use_awaitable);",
        "auto r = co_await async_initiate<T, S>([p](auto h) { p->go(h); }, token);",
        "co_await f([&a, b = g(1, 2)] {});",
        "co_await f([*this] { return 1; });",
    ],
    "several": ["auto p = P(co_await a(), co_await b());", "use((co_await a()) + (co_await b()));"],
    "lock": [
        "std::lock_guard lock(mutex); co_await f();",
        "const std::lock_guard<std::mutex> lock(mutex); if (x) { co_await f(); }",
        "std::unique_lock lock{mutex}; n = 1; auto y = co_await f();",
    ],
}

GOOD = {"src/good.cpp": r"""
asio::awaitable<void> good(std::vector<task> tasks) {
  bool ok = co_await f();
  if (!ok) co_return;
  if (a ? b : c) co_await f();
  if (auto r = co_await f(); r.ok()) g(Options{1, 2});
  for (auto& x : co_await list()) use(x, {1, 2});
  for (auto i = co_await first(); i < 3; ++i) use(i);
  for (int i = 0; i < 3; ++i) co_await f(i);
  while (running()) { co_await f(); }
  auto options = Options{.name = "co_await if (?", .p = sp};
  co_await f(std::move(options));
  auto operation = f({.name = "x"});
  co_await std::move(operation);
  auto [ec, slot] = co_await sem.acquire(asio::as_tuple(asio::use_awaitable));
  auto&& [first, second] = co_await pair();
  const auto chosen = c ? a : b;
  co_await f(chosen, values[i], 'x', 1'000'000, "{", R"(co_await f({1}))");
  // if (co_await f()) is wrong, and so is co_await f({1})
  /* co_await (c ? f() : g()) */
  co_await co_spawn(ex, [&]() -> awaitable<void> { auto t = T{1}; auto u = c ? 1 : 2; co_await g(u); }, use_awaitable);
  co_await co_spawn(ex, [&a, this] { return run(a); }, use_awaitable);
  co_await co_spawn(ex, [&a = f(g(1), 2)] { return run(a); }, use_awaitable);
  co_spawn(ex, [p = sp, n]() mutable -> awaitable<void> { co_await g(*p, n); }, asio::detached);
  auto named = [p = sp](auto h) { p->go(std::move(h)); };
  co_await async_initiate<T, S>(std::move(named), token);
  BOOST_TEST(co_await f() == 1);
  BOOST_CHECK_THROW(co_await f(), std::exception);
  auto pair = P(co_await a(), 1);
  co_await (a() || b());
  try { co_await f(); } catch (const std::exception&) { g({1}); }
  { const std::lock_guard lock(mutex); ++n; }
  co_await f();
  { std::unique_lock lock(mutex); ++n; lock.unlock(); co_await f(); }
  { const std::lock_guard lock(mutex); co_spawn(ex, [&]() -> awaitable<void> { co_await f(); }, asio::detached); }
  switch (n) { case 1: { co_await f(); break; } default: co_await g(); }
  do { co_await f(); } while (n < 3);
  co_return co_await f();
}
#define AWAIT_ALL(x) if (co_await x) { \
    co_await (c ? f() : g()); }
struct machine {
  awaitable<int> step() noexcept { co_return co_await f(); }
  awaitable<int> step() const& { co_return co_await f(); }
  std::map<int, int> table_{{1, 2}};
};
namespace a::b { awaitable<std::pair<int, int>> f(int x) { co_await g(x); } }
auto lambda = [] -> awaitable<void> { co_await g(); };
"""}


_FUNCTION = "awaitable<void> bad() {{\n  int n = 0;\n  {}\n}}\n"
PLANTED = [("src/planted.cpp", "", _FUNCTION.format(snippet), f"src/planted.cpp:3: {RULES[rule]}")
           for rule in RULES for snippet in BAD[rule]]
