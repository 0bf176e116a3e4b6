"""Print the title, headings and links of HTML files."""

import sys

from bs4 import BeautifulSoup


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            page = BeautifulSoup(file, "html.parser")
        title = page.title.get_text(strip=True) if page.title else "(none)"
        print(f"{path}: {title}")
        for heading in page.find_all(["h1", "h2", "h3"]):
            print(f"  {heading.name}: {heading.get_text(strip=True)}")
        for link in page.find_all("a", href=True):
            print(f"  link: {link['href']}")


if __name__ == "__main__":
    main()
