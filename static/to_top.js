// A new answer begins at the top of the page: on a phone the reader has scrolled down to the button that asked for it.
let shown;

export default function ({ data }) {
  if (shown !== undefined && shown !== data.answer) {
    document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
  }
  shown = data.answer;
}
