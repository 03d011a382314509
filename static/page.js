// What a page of Streamlit lacks for a reader who listens to it or has no mouse: its language (index.html is English
// for all), and that a table or a line of code which is wider than the screen can be reached by keyboard to be scrolled.
const WIDE = "pre, [data-testid=stCaptionContainer], [data-testid=stMarkdownContainer]";

let waiting = false;

function scrolls(element) {
  return element.scrollWidth > element.clientWidth && /auto|scroll/.test(getComputedStyle(element).overflowX);
}

function makeReachable() {
  waiting = false;
  for (const element of document.querySelectorAll(`:is([data-testid=stMain], [data-testid=stPopoverBody]) :is(${WIDE})`)) {
    if (scrolls(element)) {
      element.tabIndex = 0;
    } else if (element.hasAttribute("tabindex")) {
      element.removeAttribute("tabindex");
    }
  }
}

function soon() {
  if (!waiting) {
    waiting = true;
    setTimeout(makeReachable, 200);
  }
}

export default function ({ data }) {
  document.documentElement.lang = data.language;
  const watcher = new MutationObserver(soon);
  watcher.observe(document.body, { childList: true, subtree: true });
  window.addEventListener("resize", soon);
  soon();
  return () => {
    watcher.disconnect();
    window.removeEventListener("resize", soon);
  };
}
