use super::*;

fn line_of_fault(source: &str) -> Option<u32> {
    check(source).err().map(|fault| fault.line)
}

#[test]
fn what_python_reads_is_read() {
    for source in [
        "",
        "\n# only a comment",
        "x = 1",
        "def f(a,\n      b):\n    return {'a': [1, 2]}\n",
        "if x:\n\tpass\nelse:\n\tpass\n",
        "if x: pass\n",
        "class A:\n    '''doc\n  text'''\n\n    def f(self):\n        pass\n# back\n    def g(self): ...\n",
        "s = 'it\\'s' + \"\\\\\" + r'\\'' + b'x' + '''a'b''c'''\n",
        "s = f\"{x['a']} {y:>{width}} {{not}} {z!r:^10}\"\n",
        "s = f\"{x[\"nested\"]}\"\n",
        "s = f'{t:%H:%M} {n:#x} {d[\"a#b\"]}'\n",
        "s = f'''{\n  x\n}'''\n",
        "s = f'\\N{BULLET} {x}'\n",
        "x = 1 + \\\n  2\n",
        "if (a and\n    b):\n    pass\n",
        "with open('x') as f, \\\n     open('y') as g:\n    pass\n",
        "x = [\n  1,\n# comment )\n]\n",
        "def f():\r\n    return 1\r\n",
        "match x:\n    case {'a': 1}:\n        pass\n",
        "print ('ok')\nprint\n",
        "x: int = 3\ny = lambda a: a\nz = d[1:2]\n",
        "while True:  # comment:\n    break\n",
        "f = rf'\\d{{2}}\\{x}'\n",
        "if x:\n    pass\n    # trailing\n",
        "if x:\n    y = '''\nout\n'''\n    z = 1\n",
        "async def f():\n    async with a as b:\n        await c\n",
    ] {
        assert_eq!(check(source), Ok(()), "{source}");
    }
}

#[test]
fn what_python_refuses_has_a_line() {
    for (source, line) in [
        ("x = (1,\n\ny = 2\n", 1),
        ("x = 1)\n", 1),
        ("a = 1\nx = [1, 2)\n", 2),
        ("s = 'abc\n", 1),
        ("a = 1\ns = '''abc\n\n", 2),
        ("def f():\nreturn 1\n", 2),
        ("x = 1\n    y = 2\n", 2),
        ("if x:\n        a\n    b\n", 3),
        ("def f():\n", 1),
        ("print 'hello'\n", 1),
        ("s = f'{x'\n", 1),
        ("s = f'{x\n", 1),
        ("if x:\n    pass\n  else:\n    pass\n", 3),
    ] {
        assert_eq!(line_of_fault(source), Some(line), "{source}");
    }
}

#[test]
fn depth_is_a_fault_not_a_crash() {
    for source in ["(".repeat(1 << 20), "f'{".repeat(1 << 18), "f\"{x:{".repeat(1 << 18)] {
        assert_eq!(line_of_fault(&source), Some(1));
    }
    let stairs: String = (0..1000).map(|depth| format!("{}if x:\n", " ".repeat(depth))).collect();
    assert!(check(&stairs).is_err());
}
