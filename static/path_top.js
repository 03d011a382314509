// A new step of the guided path begins at the top of the page: on a phone the reader has scrolled down to "Next".
let shown;

export default function ({ data }) {
  if (shown !== undefined && shown !== data.step) {
    document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0);
  }
  shown = data.step;
}
